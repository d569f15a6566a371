// How the elements of a tensor lie in memory.
#ifndef poputil_VarStructure_hpp
#define poputil_VarStructure_hpp

#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace poputil {

/// A dimension, and how many of its elements lie together.
using GroupingInfo = std::pair<unsigned, unsigned>;

/// The number of elements of the last dimension that lie together in memory on one tile; 1 if they
/// do not.
unsigned detectInnermostGrouping(const poplar::Graph &graph, const poplar::Tensor &t);
/// The groupings of dimensions, from the innermost outwards.
std::vector<GroupingInfo> detectDimGroupings(const poplar::Graph &graph, const poplar::Tensor &t);

/// A variable in which each of the partitions of a regular grid lies together in memory.
poplar::Tensor createPartitionableTensor(poplar::Graph &graph, const poplar::Type &type,
                                         const std::vector<std::size_t> &shape,
                                         const std::vector<std::size_t> &nPartitions,
                                         const poplar::DebugContext &debugContext = {});
/// Calls `f` with the index and the slice of each partition.
void iterateTensorPartitions(
    const poplar::Tensor &t, const std::vector<std::size_t> &nPartitions,
    const std::function<void(const std::vector<std::size_t> &i, const poplar::Tensor &s)> &f);

}  // namespace poputil

#endif  // poputil_VarStructure_hpp
