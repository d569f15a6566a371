// What a custom operation that is built against Poplar says of itself.
#ifndef TENSORFLOW_IPU_ENGINE_POPLAR_METADATA_H_
#define TENSORFLOW_IPU_ENGINE_POPLAR_METADATA_H_

#include <cstdint>
#include <map>
#include <vector>

namespace tensorflow_ipu {

// The API levels of libraries that are built against Poplar.
constexpr int kFirstPoplarLevel = 1;
constexpr int kLastPoplarLevel = 5;

struct PoplarMetadata {
  std::vector<int64_t> allocating;         // inputs
  std::vector<int64_t> replica_identical;  // outputs
  std::map<int64_t, int64_t> aliases;      // input to output
  bool is_elementwise = false, is_stateless = false, is_hashable = false;
};

// Calls the function `<op>_metadata` of a library of an API level.
PoplarMetadata CallPoplarMetadata(void* function, int level, uint32_t num_inputs);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_POPLAR_METADATA_H_
