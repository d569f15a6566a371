// Updates of one element of each row.
#ifndef popops_UpdateScalarInRows_hpp
#define popops_UpdateScalarInRows_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace popops {

/// Subtracts 1 from params[i, indices[i]]. The index MASKED_LABEL_CODE changes nothing.
void updateScalarInRows(poplar::Graph &graph, const poplar::Tensor &params,
                        const poplar::Tensor &indices, poplar::program::Sequence &program,
                        const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_UpdateScalarInRows_hpp
