#include "popops/Rearrange.hpp"

#include "poplar/core/LibraryOp.hpp"
#include "popops/Cast.hpp"
#include "poputil/call.h"

namespace popops::rearrange {

using poplar::ComputeSet;
using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Copy;
using poplar::program::Sequence;
using poputil::Call;
using poputil::GroupingInfo;

bool canUseFastTranspose(const poplar::Target& target, const Type& type, unsigned numRows,
                         unsigned numColumns, unsigned) {
  // Blocks of four by four elements of two bytes.
  return target.getTypeSize(type) == 2 && numRows % 4 == 0 && numColumns % 4 == 0;
}

void addTransposeVertices(Graph& graph, const ComputeSet& cs, const Type& dType, unsigned rows,
                          unsigned cols, const Graph::TileToTensorMapping& mapping,
                          std::function<std::pair<const Tensor, const Tensor>(size_t)> getInOut,
                          const DebugContext& debugContext) {
  const Call call("popops::rearrange::addTransposeVertices", debugContext);
  for (const auto& intervals : mapping) {
    for (const poplar::Interval& interval : intervals) {
      for (size_t i = interval.begin(); i < interval.end(); ++i) {
        const auto [in, out] = getInOut(i);
        call.RequireType("the input", in, dType);
        const Tensor transposed = in.reshape({rows, cols}).transpose();
        cast(graph, transposed, out.reshape({cols, rows}), cs);
      }
    }
  }
}

Tensor partialTranspose(Graph& graph, const Tensor& in, const ComputeSet& cs,
                        const DebugContext& debugContext) {
  const Call call("popops::rearrange::partialTranspose", debugContext);
  call.Require(in.rank() >= 2, "the tensor has fewer than two dimensions.");
  const Tensor transposed = in.dimRoll(in.rank() - 1, in.rank() - 2);
  return cast(graph, transposed, in.elementType(), cs, debugContext);
}

unsigned getMinimumRegroupGrainSize(const Type& type) { return type == poplar::HALF ? 4 : 2; }

Tensor regroupTensor(Graph&, const Tensor& t, Sequence&, const ComputeSet&, const GroupingInfo&,
                     const GroupingInfo&, const DebugContext&) {
  return t;
}

Tensor regroupTensor(Graph&, const Tensor& t, std::vector<Copy>&, const ComputeSet&,
                     const GroupingInfo&, const GroupingInfo&, const DebugContext&) {
  return t;
}

Tensor regroupIfBeneficial(Graph&, const Tensor& in, const Tensor&, Sequence&,
                           const DebugContext&) {
  return in;
}

Tensor regroupIfBeneficial(Graph&, const Tensor& in, const Tensor&, std::vector<Copy>&, ComputeSet,
                           const DebugContext&) {
  return in;
}

Tensor regroupIfBeneficial(Graph&, const Tensor& in, size_t, Sequence&, const DebugContext&) {
  return in;
}

Tensor regroupIfPossible(Graph&, const Tensor& t, Sequence&, const GroupingInfo&,
                         const DebugContext&) {
  return t;
}

}  // namespace popops::rearrange
