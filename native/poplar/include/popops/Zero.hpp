// Zeros in all elements of a tensor.
#ifndef popops_Zero_hpp
#define popops_Zero_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <vector>

namespace popops {

/// Zeros regions of a tensor, which are mapped to a tile, as a part of a compute set.
void zero(poplar::Graph &graph, poplar::Tensor t, const std::vector<poplar::Interval> &tileRegions,
          unsigned tile, poplar::ComputeSet zeroCS);
/// The same for a tensor that is on one tile.
void zero(poplar::Graph &graph, const poplar::Tensor &t, unsigned tile, poplar::ComputeSet zeroCS);
/// The same for regions of each tile.
void zero(poplar::Graph &graph, const poplar::Tensor &t,
          const std::vector<std::vector<poplar::Interval>> &mapping, poplar::ComputeSet zeroCS);
/// Zeros a tensor.
void zero(poplar::Graph &graph, const poplar::Tensor &t, poplar::program::Sequence &prog,
          const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_Zero_hpp
