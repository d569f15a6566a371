// One value in all elements of a tensor.
#ifndef popops_Fill_hpp
#define popops_Fill_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <popops/Expr.hpp>

#include <vector>

namespace popops {

namespace core {
poplar::program::Program fillOp(poplar::Graph &graph, const poplar::Tensor &t,
                                const expr::Const &value, const poplar::DebugContext &debugContext,
                                const char *function);
void fillInComputeSet(poplar::Graph &graph, const poplar::Tensor &t, poplar::ComputeSet computeSet,
                      const expr::Const &value, const char *function);
poplar::Tensor concatRegions(const poplar::Tensor &t, const std::vector<poplar::Interval> &regions);
}  // namespace core

/// Fills regions of a tensor, which are mapped to a tile, as a part of a compute set.
template <typename FillValueType>
void fill(poplar::Graph &graph, poplar::Tensor t, const std::vector<poplar::Interval> &tileRegions,
          unsigned, poplar::ComputeSet fillCS, FillValueType fillValue) {
  core::fillInComputeSet(graph, core::concatRegions(t, tileRegions), fillCS, fillValue,
                         "popops::fill");
}
/// The same for a tensor that is on one tile.
template <typename FillValueType>
void fill(poplar::Graph &graph, const poplar::Tensor &t, unsigned, poplar::ComputeSet fillCS,
          FillValueType fillValue) {
  core::fillInComputeSet(graph, t, fillCS, fillValue, "popops::fill");
}
/// The same for regions of each tile.
template <typename FillValueType>
void fill(poplar::Graph &graph, const poplar::Tensor &t,
          const std::vector<std::vector<poplar::Interval>> &mapping, poplar::ComputeSet fillCS,
          FillValueType fillValue) {
  for (const std::vector<poplar::Interval> &regions : mapping) {
    if (!regions.empty()) fill(graph, t, regions, 0, fillCS, fillValue);
  }
}
/// Fills a tensor.
template <typename FillValueType>
void fill(poplar::Graph &graph, const poplar::Tensor &t, poplar::program::Sequence &prog,
          FillValueType fillValue, const poplar::DebugContext &debugContext = {}) {
  prog.add(core::fillOp(graph, t, fillValue, debugContext, "popops::fill"));
}

}  // namespace popops

#endif  // popops_Fill_hpp
