#include "poputil/Util.hpp"

#include <algorithm>
#include <cmath>

#include "poplar/MetadataCreation.hpp"
#include "poputil/call.h"

namespace poputil {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Target;
using poplar::Tensor;
using poplar::TensorCloneMethod;
using poplar::program::Sequence;
using Intervals = std::vector<Interval>;

void mergeAdjacentRegions(Intervals& regions) {
  std::sort(regions.begin(), regions.end());
  Intervals merged;
  for (const Interval& region : regions) {
    if (region.size() == 0) continue;
    if (!merged.empty() && merged.back().end() >= region.begin()) {
      merged.back() = Interval(merged.back().begin(), std::max(merged.back().end(), region.end()));
    } else {
      merged.push_back(region);
    }
  }
  regions = std::move(merged);
}

void mergeAdjacentRegions(std::vector<Intervals>& mapping) {
  for (Intervals& regions : mapping) mergeAdjacentRegions(regions);
}

Intervals flattenIntervals(const std::vector<Intervals>& intervals) {
  Intervals result;
  for (const Intervals& list : intervals) result.insert(result.end(), list.begin(), list.end());
  return result;
}

size_t intervalSequenceNumElements(const std::vector<Intervals>& seq) {
  size_t count = 0;
  for (const Intervals& list : seq) {
    for (const Interval& interval : list) count += interval.size();
  }
  return count;
}

Intervals calculateUnshufflingIntervals(const Intervals& intervals) {
  // Each interval with the place where its elements are.
  std::vector<std::pair<Interval, Interval>> placed;
  size_t at = 0;
  for (const Interval& interval : intervals) {
    placed.push_back({interval, Interval(at, at + interval.size())});
    at += interval.size();
  }
  std::sort(placed.begin(), placed.end());
  Intervals result;
  for (const auto& [interval, place] : placed) result.push_back(place);
  return result;
}

namespace {

// The elements where each part ends.
std::vector<size_t> PartEnds(size_t elements, size_t grain, size_t max_parts, size_t min_elements,
                             size_t max_elements) {
  const auto divide_up = [](size_t a, size_t b) { return (a + b - 1) / b; };
  const size_t grains = divide_up(elements, grain);
  const size_t least = std::max<size_t>(1, divide_up(min_elements, grain));
  const size_t most_parts = std::max<size_t>(1, grains / least);
  size_t largest = std::max(divide_up(grains, max_parts), divide_up(grains, most_parts));
  largest = std::min(largest, std::max<size_t>(1, max_elements / grain));
  const size_t parts = grains == 0 ? 0 : divide_up(grains, largest);
  std::vector<size_t> ends;
  for (size_t i = 1; i <= parts; ++i)
    ends.push_back(std::min(elements, i * grains / parts * grain));
  return ends;
}

void CheckSplit(unsigned grainSize, unsigned maxPartitions) {
  if (grainSize > 0 && maxPartitions > 0) return;
  throw poplibs_error("poputil::splitRegions: grainSize and maxPartitions have to be positive.");
}

}  // namespace

std::vector<Intervals> splitRegions(const Intervals& regions, unsigned grainSize,
                                    unsigned maxPartitions, unsigned minElementsPerPartition,
                                    unsigned maxElementsPerPartition,
                                    unsigned maxElementsPerRegion) {
  std::vector<Intervals> result;
  for (const auto& part :
       splitRegions(std::vector<Intervals>{regions}, grainSize, maxPartitions,
                    minElementsPerPartition, maxElementsPerPartition, maxElementsPerRegion)) {
    result.push_back(flattenIntervals(part));
  }
  return result;
}

std::vector<std::vector<Intervals>> splitRegions(const std::vector<Intervals>& regions,
                                                 unsigned grainSize, unsigned maxPartitions,
                                                 unsigned minElementsPerPartition,
                                                 unsigned maxElementsPerPartition,
                                                 unsigned maxElementsPerRegion) {
  CheckSplit(grainSize, maxPartitions);
  const std::vector<size_t> ends =
      PartEnds(intervalSequenceNumElements(regions), grainSize, maxPartitions,
               minElementsPerPartition, maxElementsPerPartition);
  std::vector<std::vector<Intervals>> parts(ends.size());
  const size_t longest = std::max(1u, maxElementsPerRegion);
  size_t part = 0, at = 0;
  for (const Intervals& list : regions) {
    // A list that is cut goes on in a new one.
    bool is_new = true;
    size_t in_list = 0;
    for (Interval left : list) {
      while (left.size() > 0) {
        if (is_new) parts[part].emplace_back();
        is_new = false;
        const size_t count = std::min({left.size(), ends[part] - at, longest - in_list});
        parts[part].back().push_back(Interval(left.begin(), left.begin() + count));
        left = Interval(left.begin() + count, left.end());
        at += count;
        in_list += count;
        if (at == ends[part]) {
          ++part;
          is_new = true;
        }
        is_new |= in_list == longest;
        if (is_new) in_list = 0;
      }
    }
  }
  return parts;
}

std::vector<Intervals> splitRegionsBetweenWorkers(const Target& target, const Intervals& regions,
                                                  unsigned grainSize,
                                                  unsigned minElementsPerPartition,
                                                  unsigned maxElementsPerPartition,
                                                  unsigned maxElementsPerRegion) {
  return splitRegions(regions, grainSize, target.getNumWorkerContexts(), minElementsPerPartition,
                      maxElementsPerPartition, maxElementsPerRegion);
}

std::vector<std::vector<Intervals>> splitRegionsBetweenWorkers(
    const Target& target, const std::vector<Intervals>& regions, unsigned grainSize,
    unsigned minElementsPerPartition, unsigned maxElementsPerPartition,
    unsigned maxElementsPerRegion) {
  return splitRegions(regions, grainSize, target.getNumWorkerContexts(), minElementsPerPartition,
                      maxElementsPerPartition, maxElementsPerRegion);
}

std::vector<int> balancedPartition(int rangeUpperBound, int splitCount) {
  if (splitCount <= 0) {
    throw poplibs_error("poputil::balancedPartition: splitCount has to be positive.");
  }
  std::vector<int> sizes(splitCount, rangeUpperBound / splitCount);
  for (int i = 0; i < rangeUpperBound % splitCount; ++i) ++sizes[i];
  return sizes;
}

Tensor factorDims(const Tensor& t, const std::vector<size_t>& factors, unsigned startDim) {
  const unsigned count = static_cast<unsigned>(factors.size());
  const Call call("poputil::factorDims", DebugContext(poplar::SourceLocation()));
  call.Require(startDim + count <= t.rank(),
               std::to_string(count) + " dimensions from " + std::to_string(startDim) +
                   " on do not exist in shape " + TextOf(t.shape()) + ".");
  std::vector<size_t> split;
  std::vector<unsigned> order;
  for (unsigned i = 0; i < count; ++i) {
    const size_t size = t.dim(startDim + i);
    call.Require(factors[i] > 0 && size % factors[i] == 0,
                 "dimension " + std::to_string(startDim + i) + " of shape " + TextOf(t.shape()) +
                     " cannot be divided by " + std::to_string(factors[i]) + ".");
    split.push_back(size / factors[i]);
    split.push_back(factors[i]);
  }
  const Tensor pairs = t.reshapePartial(startDim, startDim + count, split);
  for (unsigned d = 0; d < startDim; ++d) order.push_back(d);
  for (unsigned i = 0; i < count; ++i) order.push_back(startDim + 2 * i);
  for (unsigned i = 0; i < count; ++i) order.push_back(startDim + 2 * i + 1);
  for (unsigned d = startDim + 2 * count; d < pairs.rank(); ++d) order.push_back(d);
  return pairs.dimShuffle(order);
}

Tensor unfactorDims(const Tensor& t, unsigned numDims, unsigned startDim) {
  const Call call("poputil::unfactorDims", DebugContext(poplar::SourceLocation()));
  call.Require(startDim + 2 * numDims <= t.rank(),
               "the shape " + TextOf(t.shape()) + " has too few dimensions.");
  std::vector<unsigned> order;
  std::vector<size_t> sizes;
  for (unsigned d = 0; d < startDim; ++d) order.push_back(d);
  for (unsigned i = 0; i < numDims; ++i) {
    order.push_back(startDim + i);
    order.push_back(startDim + numDims + i);
    sizes.push_back(t.dim(startDim + i) * t.dim(startDim + numDims + i));
  }
  for (unsigned d = startDim + 2 * numDims; d < t.rank(); ++d) order.push_back(d);
  return t.dimShuffle(order).reshapePartial(startDim, startDim + 2 * numDims, sizes);
}

Tensor duplicate(Graph& graph, const Tensor& in, Sequence& prog, const DebugContext& debugContext,
                 TensorCloneMethod method) {
  const Tensor out = graph.clone(in, debugContext, method);
  prog.add(poplar::program::Copy(in, out, false, debugContext));
  return out;
}

Tensor cloneN(Graph& graph, const Tensor& t, unsigned N, const DebugContext& debugContext,
              TensorCloneMethod method) {
  return graph.cloneN(t.expand({0}), N, debugContext, method);
}

Tensor createConstantMetadataTensor(Graph& graph, poplar::QuarterMetadata::Format fp8Format,
                                    int fp8Scale) {
  return poplar::createConstantMetadataTensor(graph, fp8Format, fp8Scale);
}

Tensor createVariableMetadataTensor(Graph& graph, poplar::QuarterMetadata::Format fp8Format,
                                    int fp8Scale) {
  return poplar::createVariableMetadataTensor(graph, fp8Format, fp8Scale);
}

namespace {

// A number as the device holds it.
double InType(const Target& target, double value, const poplar::Type& type) {
  if (type == poplar::HALF) return castToDeviceHalfValue(target, value);
  if (type == poplar::FLOAT) return static_cast<float>(value);
  return std::trunc(value);
}

}  // namespace

double castToDeviceHalfValue(const Target&, double input) {
  return static_cast<float>(poplar::IeeeHalf(static_cast<float>(input)));
}

bool checkAccuracyWhenCast(const Target& target, double input, poplar::Type inputType,
                           poplar::Type outputType, double tolerance) {
  const double before = InType(target, input, inputType);
  const double after = InType(target, before, outputType);
  return std::abs(after - before) <= std::abs(before) * tolerance;
}

}  // namespace poputil
