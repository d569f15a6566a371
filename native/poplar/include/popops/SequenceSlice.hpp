// Runs of rows from place to place.
#ifndef popops_SequenceSlice_hpp
#define popops_SequenceSlice_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace popops {

/// Copies tN[i] rows of `tIn` from row tInOffset[i] to row tOutOffset[i] of `tOut`, for each i.
/// Rows beyond either tensor are left out. With `zeroUnused`, the other rows of `tOut` become
/// zeros.
void sequenceSlice(poplar::Graph &graph, const poplar::Tensor &tIn, const poplar::Tensor &tOut,
                   const poplar::Tensor &tN, const poplar::Tensor &tInOffset,
                   const poplar::Tensor &tOutOffset, bool zeroUnused,
                   poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_SequenceSlice_hpp
