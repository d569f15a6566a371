// Bases of B-splines.
#ifndef popops_SplineBasis_hpp
#define popops_SplineBasis_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace popops {

/// Writes, for each edge with its pseudo-coordinates {E, D} in [0, 1], the products of bases {E, S}
/// and the indices of weights {E, S}, with S = (degree + 1)^D. `kernelSize` and `isOpenSpline` are
/// {D}.
void splineBasis(poplar::Graph &graph, const poplar::Tensor &pseudo,
                 const poplar::Tensor &kernelSize, const poplar::Tensor &isOpenSpline,
                 const poplar::Tensor &basis, const poplar::Tensor &weightIndex, unsigned degree,
                 poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_SplineBasis_hpp
