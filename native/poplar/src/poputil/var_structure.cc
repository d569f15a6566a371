#include "poputil/VarStructure.hpp"

#include <algorithm>
#include <numeric>

#include "poputil/call.h"

namespace poputil {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;

namespace {

// The largest divisor of a row's length such that its aligned parts lie together on one tile.
unsigned GroupingOfRow(const Graph& graph, const Tensor& row) {
  size_t grouping = row.numElements();
  for (const Interval& region : row.getContiguousRegions()) {
    grouping = std::gcd(grouping, region.end());
  }
  bool complete = false;
  for (const auto& regions : graph.getTileMapping(row, &complete)) {
    for (const Interval& region : regions) {
      grouping = std::gcd(std::gcd(grouping, region.begin()), region.end());
    }
  }
  return static_cast<unsigned>(std::max<size_t>(1, grouping));
}

// The first row of the last dimension.
Tensor FirstRow(const Tensor& t) { return t.flatten().slice(0, t.dim(t.rank() - 1)); }

}  // namespace

unsigned detectInnermostGrouping(const Graph& graph, const Tensor& t) {
  if (t.rank() == 0) {
    throw poplibs_error("poputil::detectInnermostGrouping: the tensor has no dimension.");
  }
  if (t.numElements() == 0) return 1;
  return GroupingOfRow(graph, FirstRow(t));
}

std::vector<GroupingInfo> detectDimGroupings(const Graph& graph, const Tensor& t) {
  std::vector<GroupingInfo> groupings;
  if (t.numElements() == 0) return groupings;
  // The dimensions that are left, and as the last one all groups that were found.
  Tensor outer = t.expand({t.rank()});
  while (true) {
    const unsigned dims = outer.rank() - 1;
    const size_t inner = outer.dim(dims);
    GroupingInfo best{0, 1};
    for (unsigned d = 0; d < dims; ++d) {
      if (outer.dim(d) == 1) continue;
      const Tensor rows = outer.dimRoll(d, dims - 1).flatten(dims - 1, dims + 1);
      const size_t together = GroupingOfRow(graph, FirstRow(rows));
      if (together % inner != 0) continue;
      const unsigned length = static_cast<unsigned>(together / inner);
      if (length > best.second) best = {d, length};
    }
    if (best.second == 1) return groupings;
    groupings.push_back(best);
    const unsigned d = best.first;
    const size_t rest = outer.dim(d) / best.second;
    outer = outer.reshapePartial(d, d + 1, {rest, best.second})
                .dimRoll(d + 1, dims)
                .flatten(dims, dims + 2);
  }
}

namespace {

std::vector<Interval> PartitionsOf(size_t size, size_t parts) {
  const size_t largest = parts == 0 ? size : (size + parts - 1) / parts;
  std::vector<Interval> result;
  for (size_t i = 0; i < parts; ++i) {
    result.push_back(Interval(std::min(size, i * largest), std::min(size, (i + 1) * largest)));
  }
  return result;
}

void CheckPartitions(const std::vector<size_t>& shape, const std::vector<size_t>& partitions,
                     const Call& call) {
  call.Require(shape.size() == partitions.size(), "the shape " + TextOf(shape) +
                                                      " and the partitions " + TextOf(partitions) +
                                                      " have different lengths.");
  for (const size_t parts : partitions) {
    call.Require(parts > 0, "a dimension has no partition: " + TextOf(partitions) + ".");
  }
}

// Puts the partitions of one dimension after the other together, from their order in `flat`.
Tensor Assemble(const Tensor& flat, size_t* at, std::vector<size_t> shape,
                const std::vector<size_t>& partitions, unsigned dim) {
  if (dim == shape.size()) {
    size_t count = 1;
    for (const size_t size : shape) count *= size;
    *at += count;
    return flat.slice(*at - count, *at).reshape(shape);
  }
  std::vector<Tensor> parts;
  for (const Interval& interval : PartitionsOf(shape[dim], partitions[dim])) {
    std::vector<size_t> part = shape;
    part[dim] = interval.size();
    parts.push_back(Assemble(flat, at, part, partitions, dim + 1));
  }
  return poplar::concat(parts, dim);
}

void Iterate(const Tensor& t, const std::vector<size_t>& partitions, std::vector<size_t>* index,
             const std::function<void(const std::vector<size_t>&, const Tensor&)>& f) {
  const unsigned dim = static_cast<unsigned>(index->size());
  if (dim == partitions.size()) return f(*index, t);
  const std::vector<Interval> intervals = PartitionsOf(t.dim(dim), partitions[dim]);
  for (size_t i = 0; i < intervals.size(); ++i) {
    index->push_back(i);
    Iterate(t.slice(intervals[i], dim), partitions, index, f);
    index->pop_back();
  }
}

}  // namespace

Tensor createPartitionableTensor(Graph& graph, const poplar::Type& type,
                                 const std::vector<size_t>& shape,
                                 const std::vector<size_t>& nPartitions,
                                 const DebugContext& debugContext) {
  CheckPartitions(shape, nPartitions, Call("poputil::createPartitionableTensor", debugContext));
  size_t count = 1, at = 0;
  for (const size_t size : shape) count *= size;
  const Tensor flat = graph.addVariable(type, {count}, debugContext);
  return Assemble(flat, &at, shape, nPartitions, 0);
}

void iterateTensorPartitions(
    const Tensor& t, const std::vector<size_t>& nPartitions,
    const std::function<void(const std::vector<size_t>& i, const Tensor& s)>& f) {
  CheckPartitions(t.shape(), nPartitions,
                  Call("poputil::iterateTensorPartitions", DebugContext(poplar::SourceLocation())));
  std::vector<size_t> index;
  Iterate(t, nPartitions, &index, f);
}

}  // namespace poputil
