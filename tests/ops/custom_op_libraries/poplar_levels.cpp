// Operations of each API level: LEVEL. With AS_4, level 5 has the metadata of level 4.
// The outputs of Build are its first input, which
// shares memory, and its second, backwards.
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Program;
using Tensors = std::vector<Tensor>;

extern "C" {

int32_t custom_op_api_level = LEVEL;

Program Build(Graph &, const Tensors &inputs, Tensors &outputs
#if LEVEL >= 2
              ,
              const std::string &attributes
#endif
              ,
              const std::string &prefix) {
#if LEVEL >= 2
  if (attributes != "text") throw poplar::poplar_error("attributes: " + attributes);
#endif
  if (prefix.empty()) throw poplar::poplar_error("no prefix");
  outputs = {inputs[0], inputs[1].reverse(0)};
  return poplar::program::Sequence();
}

void Build_metadata(std::vector<int64_t> &,
#if LEVEL >= 5 && !defined(AS_4)
                    std::vector<int64_t> &,
#endif
#if LEVEL >= 3
                    std::map<int64_t, int64_t> &aliases,
#else
                    uint32_t &num_inplace,
#endif
                    bool &, bool &stateless,
#if LEVEL >= 4
                    bool &,
#endif
                    uint32_t num_inputs) {
  stateless = true;
#if LEVEL >= 3
  aliases[0] = 0;
#else
  num_inplace = 1;
#endif
  if (num_inputs != 2) throw "wrong number of inputs";
}

}  // extern "C"
