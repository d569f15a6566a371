// The graph of Poplar that ops are lowered into.
#ifndef popart_popx_irlowering_hpp
#define popart_popx_irlowering_hpp

#include <popart/ir.hpp>
#include <popart/popx/viewchangers.hpp>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

namespace popart {
namespace popx {

/// Maps tensors over the tiles of a graph.
class LinearMapper {
 public:
  void mapTensor(poplar::Graph &graph, poplar::Tensor &tensor) const;
};

/// The tensors of Poplar by the ids of the tensors that they hold.
class PopTensors {
 public:
  void insert(const TensorId &id, const poplar::Tensor &tensor);
  const poplar::Tensor &get(const TensorId &id) const;
  const poplar::Tensor &getView(const TensorId &id) const;
  bool contains(const TensorId &id) const { return tensors_.count(id) != 0; }
  bool hasViewChangers(const TensorId &id) const { return changers_.count(id) != 0; }
  const ViewChangers &getViewChangers(const TensorId &id) const { return changers_.at(id); }
  void setViewChangers(const TensorId &id, const ViewChangers &changers);

 private:
  std::map<TensorId, poplar::Tensor> tensors_, views_;
  std::map<TensorId, ViewChangers> changers_;
};

class IrLowering {
 public:
  IrLowering(const Ir &ir, poplar::Graph &graph) : ir_(ir), graph_(graph) {}

  poplar::Graph &graph() { return graph_; }
  poplar::Graph &getVirtualGraph(VGraphId, TileSet = TileSet::Compute) { return graph_; }
  const Ir &ir() const { return ir_; }
  PopTensors &tensors() { return tensors_; }
  const PopTensors &tensors() const { return tensors_; }
  LinearMapper &getLinearMapper() { return mapper_; }
  poplar::Tensor getConst(poplar::Graph &graph, const poplar::Type &type,
                          const std::vector<size_t> &shape, double value,
                          const poplar::DebugContext &debugContext);
  poplar::Tensor getScalarVariable(poplar::Graph &graph, const poplar::Type &type,
                                   const poplar::DebugContext &debugContext);
  unsigned getReplicationFactor() const;
  unsigned getGlobalReplicationFactor() const;

  poplar::OptionFlags gclOptions, matmulOptions, lstmOptions, pooling_options, engineOptions,
      reportOptions;

 private:
  const Ir &ir_;
  poplar::Graph &graph_;
  PopTensors tensors_;
  LinearMapper mapper_;
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_irlowering_hpp
