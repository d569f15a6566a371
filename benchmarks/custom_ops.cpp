// Ten operations of popops, for custom_ops.py.
#include <popops/ElementWise.hpp>

#include <cstdint>
#include <string>
#include <vector>

using poplar::Tensor;
using poplar::program::Sequence;

extern "C" {

int32_t custom_op_api_level = 5;

poplar::program::Program Build(poplar::Graph &graph, const std::vector<Tensor> &inputs,
                               std::vector<Tensor> &outputs, const std::string &,
                               const std::string &name) {
  Sequence program;
  const Tensor &x = inputs[0], &y = inputs[1];
  Tensor z = popops::mul(graph, x, y, program, name);
  z = popops::add(graph, z, x, program, name);
  z = popops::sub(graph, z, y, program, name);
  z = popops::mul(graph, z, z, program, name);
  z = popops::add(graph, z, y, program, name);
  z = popops::max(graph, z, x, program, name);
  z = popops::mul(graph, z, y, program, name);
  z = popops::neg(graph, z, program, name);
  z = popops::add(graph, z, x, program, name);
  z = popops::mul(graph, z, y, program, name);
  outputs.push_back(z);
  return program;
}

}  // extern "C"
