#include "engine/poplar_metadata.h"

namespace tensorflow_ipu {
namespace {

using Indices = std::vector<int64_t>;
using Aliases = std::map<int64_t, int64_t>;

// Level 5 knows outputs that are equal on all replicas, level 4 hashing, level 3 which inputs
// share memory with which outputs. Before, the first inputs did, with the outputs in order.
using Describe5 = void(Indices& allocating, Indices& replica_identical, Aliases& aliases,
                       bool& is_elementwise, bool& is_stateless, bool& is_hashable,
                       uint32_t num_inputs);
using Describe4 = void(Indices& allocating, Aliases& aliases, bool& is_elementwise,
                       bool& is_stateless, bool& is_hashable, uint32_t num_inputs);
using Describe3 = void(Indices& allocating, Aliases& aliases, bool& is_elementwise,
                       bool& is_stateless, uint32_t num_inputs);
using Describe1 = void(Indices& allocating, uint32_t& num_inplace, bool& is_elementwise,
                       bool& is_stateless, uint32_t num_inputs);

}  // namespace

PoplarMetadata CallPoplarMetadata(void* function, int level, uint32_t num_inputs) {
  PoplarMetadata m;
  if (level >= 5) {
    reinterpret_cast<Describe5*>(function)(m.allocating, m.replica_identical, m.aliases,
                                           m.is_elementwise, m.is_stateless, m.is_hashable,
                                           num_inputs);
  } else if (level == 4) {
    reinterpret_cast<Describe4*>(function)(m.allocating, m.aliases, m.is_elementwise,
                                           m.is_stateless, m.is_hashable, num_inputs);
  } else if (level == 3) {
    reinterpret_cast<Describe3*>(function)(m.allocating, m.aliases, m.is_elementwise,
                                           m.is_stateless, num_inputs);
  } else {
    uint32_t num_inplace = 0;
    reinterpret_cast<Describe1*>(function)(m.allocating, num_inplace, m.is_elementwise,
                                           m.is_stateless, num_inputs);
    for (uint32_t i = 0; i < num_inplace; ++i) m.aliases[i] = i;
  }
  return m;
}

}  // namespace tensorflow_ipu
