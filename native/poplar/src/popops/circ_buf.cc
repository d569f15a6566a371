#include "popops/CircBuf.hpp"

#include "popops/DynamicSlice.hpp"
#include "popops/ElementWise.hpp"
#include "popops/ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using poputil::Call;

CircBuf::CircBuf(Graph& graph, poplar::Type dataType, unsigned size,
                 const std::vector<size_t>& shape, const DebugContext& debugContext)
    : graph_(graph), size_(size), shape_(shape) {
  Call("popops::CircBuf", debugContext).Require(size > 0, "the size is 0.");
  ring_ = NewLinear(graph, dataType, {size, CountOf(shape)}, debugContext);
  index_ = graph.addVariable(poplar::UNSIGNED_INT, {1}, debugContext);
  graph.setTileMapping(index_, 0);
  graph.setInitialValue(index_, 0u);
}

Tensor CircBuf::prev(unsigned i, Sequence& seq, const DebugContext& debugContext) {
  const Call call("popops::CircBuf::prev", debugContext);
  call.Require(i < size_, "there are no " + std::to_string(i) + " steps in a ring of " +
                              std::to_string(size_) + ".");
  using namespace expr;
  const Tensor at = map(graph_, (_1 + (size_ - i)) % size_, {index_}, seq, debugContext);
  return dynamicSlice(graph_, ring_, at, {0}, {1}, seq, debugContext).reshape(shape_);
}

void CircBuf::add(Tensor t, Sequence& seq, const DebugContext& debugContext) {
  const Call call("popops::CircBuf::add", debugContext);
  call.RequireShape("the tensor", t, shape_);
  using namespace expr;
  mapInPlace(graph_, (_1 + 1u) % size_, {index_}, seq, debugContext);
  dynamicUpdate(graph_, ring_, t.reshape({1, t.numElements()}), index_, {0}, {1}, seq,
                debugContext);
}

Graph::TileToTensorMapping CircBuf::getTileMapping() {
  return graph_.getTileMapping(ring_[0].reshape(shape_));
}

}  // namespace popops
