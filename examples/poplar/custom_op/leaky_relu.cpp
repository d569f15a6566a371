// An operation for ipu.custom_ops.precompiled_user_op: y = x > 0 ? x : alpha * x, and its gradient.
// `attributes` is the number alpha.
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poputil/VertexTemplates.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace poplar;

namespace {

// A vertex on each tile that has elements of `result`, connected to the same elements of all.
program::Program elementwise(Graph &graph, const std::string &vertex,
                             const std::map<std::string, Tensor> &fields, const Tensor &result,
                             float alpha, const std::string &name) {
  ComputeSet computeSet = graph.addComputeSet(name);
  const auto mapping = graph.getTileMapping(result);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval &part : mapping[tile]) {
      VertexRef v =
          graph.addVertex(computeSet, poputil::templateVertex(vertex, result.elementType()));
      for (const auto &field : fields) {
        graph.connect(v[field.first], field.second.flatten().slice(part));
      }
      graph.setInitialValue(v["alpha"], alpha);
      graph.setTileMapping(v, tile);
      graph.setPerfEstimate(v, 20 + 4 * part.size());
    }
  }
  return program::Execute(computeSet);
}

}  // namespace

extern "C" {

int32_t custom_op_api_level = 5;

void Build_metadata(std::vector<int64_t> & /*allocating_indices*/,
                    std::vector<int64_t> & /*replica_identical_output_indices*/,
                    std::map<int64_t, int64_t> & /*input_to_output_tensor_aliasing*/,
                    bool &is_elementwise, bool &is_stateless, bool &is_hashable,
                    uint32_t /*num_inputs*/) {
  is_elementwise = true;
  is_stateless = true;
  is_hashable = true;
}

program::Program Build(Graph &graph, const std::vector<Tensor> &inputs,
                       std::vector<Tensor> &outputs, const std::string &attributes,
                       const std::string &debugPrefix) {
  Tensor y = graph.clone(inputs[0], debugPrefix + "/y");
  outputs.push_back(y);
  return elementwise(graph, "LeakyRelu", {{"x", inputs[0]}, {"y", y}}, y, std::stof(attributes),
                     debugPrefix + "/forward");
}

program::Program Build_grad(Graph &graph, int /*input_grad_index*/,
                            const std::vector<Tensor> &gradients,
                            const std::vector<Tensor> &fwdInputs,
                            const std::vector<Tensor> & /*fwdOutputs*/,
                            std::vector<Tensor> &outputs, const std::string &attributes,
                            const std::string &debugPrefix) {
  Tensor dx = graph.clone(fwdInputs[0], debugPrefix + "/dx");
  outputs.push_back(dx);
  return elementwise(graph, "LeakyReluGrad",
                     {{"dy", gradients[0]}, {"x", fwdInputs[0]}, {"dx", dx}}, dx,
                     std::stof(attributes), debugPrefix + "/backward");
}

}  // extern "C"
