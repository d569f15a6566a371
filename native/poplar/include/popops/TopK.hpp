// The largest or smallest elements of the last dimension.
#ifndef popops_TopK_hpp
#define popops_TopK_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <popops/SortOrder.hpp>

#include <ostream>
#include <utility>
#include <vector>

namespace popops {

/// How many elements, which ones, and in which order. A stable sort keeps equal ones in theirs.
struct TopKParams {
  TopKParams(unsigned k, bool largest, SortOrder sortOrder, bool stableSort = false) noexcept
      : k(k), largest(largest), sortOrder(sortOrder), stableSort(stableSort) {}

  unsigned k;
  bool largest;
  SortOrder sortOrder;
  bool stableSort;
};

std::ostream &operator<<(std::ostream &os, const TopKParams &params);

/// A tensor for `topK`.
poplar::Tensor createTopKInput(poplar::Graph &graph, const poplar::Type &type,
                               const std::vector<std::size_t> &shape, const TopKParams &params,
                               const poplar::DebugContext &debugContext = {});
poplar::Tensor topK(poplar::Graph &graph, poplar::program::Sequence &prog, const poplar::Tensor &t,
                    const TopKParams &params, const poplar::DebugContext &debugContext = {});
/// The same with `values` moved along.
std::pair<poplar::Tensor, poplar::Tensor> topKKeyValue(
    poplar::Graph &graph, poplar::program::Sequence &prog, const poplar::Tensor &keys,
    const poplar::Tensor &values, const TopKParams &params,
    const poplar::DebugContext &debugContext = {});
/// The same with the indices of the elements, of UNSIGNED_INT.
std::pair<poplar::Tensor, poplar::Tensor> topKWithPermutation(
    poplar::Graph &graph, poplar::program::Sequence &prog, const poplar::Tensor &t,
    const TopKParams &params, const poplar::DebugContext &debugContext = {});

}  // namespace popops

#endif  // popops_TopK_hpp
