// Tensors for the host, and what it sends: images.
#include "popops/ElementWise.hpp"
#include "popops/HostSliceTensor.hpp"
#include "popops/NormaliseImage.hpp"
#include "popops/Zero.hpp"
#include "popops/ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Call;

Tensor createHostTransferableTensor(Graph& graph, const Type& type,
                                    const std::vector<size_t>& shape, bool,
                                    const DebugContext& debugContext) {
  return NewLinear(graph, type, shape, debugContext);
}

Tensor createHostTransferableTensor(Graph& graph, const Type& type,
                                    const std::vector<size_t>& shape, bool, size_t& offset,
                                    const DebugContext& debugContext) {
  const Tensor tensor = graph.addVariable(type, shape, debugContext);
  const auto mapping =
      poputil::calcLinearTileMappingAndNewOffset(graph, tensor, static_cast<unsigned>(offset));
  graph.setTileMapping(tensor, mapping.first);
  offset = mapping.second;
  return tensor;
}

IndicesAndTensor createHostSliceableTensor(Graph& graph, const Type& type,
                                           const std::vector<size_t>& shape, const bool,
                                           const DebugContext& debugContext) {
  const Call call("popops::createHostSliceableTensor", debugContext);
  call.Require(!shape.empty(), "the shape has no dimension of rows.");
  return {NewLinear(graph, poplar::UNSIGNED_INT, {shape[0]}, debugContext),
          NewLinear(graph, type, shape, debugContext)};
}

Tensor createNormaliseImageInput(Graph& graph, const Type& type,
                                 const poplar::ArrayRef<size_t> shape,
                                 const DebugContext& debugContext) {
  return NewLinear(graph, type, shape.cloneAsVector(), debugContext);
}

Tensor normaliseImage(Graph& graph, Sequence& seq, Tensor tIn, float inScale, Tensor offsets,
                      Tensor scales, const DebugContext& debugContext) {
  const Call call("popops::normaliseImage", debugContext);
  constexpr size_t kChannels = 3;
  call.Require(tIn.rank() > 0 && tIn.dim(tIn.rank() - 1) == kChannels,
               "the last dimension of " + tIn.shapeToString() + " has to be 3.");
  call.RequireShape("offsets", offsets, {kChannels});
  call.RequireShape("scales", scales, {kChannels});
  std::vector<size_t> shape = tIn.shape();
  const unsigned last = tIn.rank() - 1;
  shape[last] = kChannels + 1;
  const Tensor out = NewLinear(graph, scales.elementType(), shape, debugContext);
  zero(graph, out.slice(kChannels, kChannels + 1, last), seq, debugContext);
  using namespace expr;
  const Any pixel = Cast(_1, poplar::FLOAT) * inScale;
  const Any scaled = (pixel - Cast(_2, poplar::FLOAT)) * Cast(_3, poplar::FLOAT);
  mapWithOutput(graph, Cast(scaled, scales.elementType()), {tIn, offsets, scales},
                out.slice(0, kChannels, last), seq, debugContext);
  return out;
}

}  // namespace popops
