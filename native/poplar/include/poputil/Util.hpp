// Intervals, indices and copies of tensors.
#ifndef poputil_Util_hpp
#define poputil_Util_hpp

#include <poplar/Graph.hpp>
#include <poplar/Interval.hpp>
#include <poplar/Program.hpp>
#include <poplar/Quarter.hpp>
#include <poplar/Target.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/TensorCloneMethod.hpp>
#include <poputil/exceptions.hpp>

#include <climits>
#include <cstddef>
#include <string>
#include <vector>

namespace poputil {

/// Joins neighboring intervals, which are sorted before.
void mergeAdjacentRegions(std::vector<poplar::Interval> &regions);
void mergeAdjacentRegions(std::vector<std::vector<poplar::Interval>> &mapping);

/// One list of all intervals.
std::vector<poplar::Interval> flattenIntervals(
    const std::vector<std::vector<poplar::Interval>> &intervals);
/// The number of elements of all intervals.
std::size_t intervalSequenceNumElements(const std::vector<std::vector<poplar::Interval>> &seq);
/// The intervals that put elements into order which were taken in the order of `intervals`.
std::vector<poplar::Interval> calculateUnshufflingIntervals(
    const std::vector<poplar::Interval> &intervals);

/// Splits intervals, or lists of them, into at most `maxPartitions` parts of equal numbers of
/// grains.
std::vector<std::vector<poplar::Interval>> splitRegions(
    const std::vector<poplar::Interval> &regions, unsigned grainSize, unsigned maxPartitions,
    unsigned minElementsPerPartition = 0, unsigned maxElementsPerPartition = UINT_MAX,
    unsigned maxElementsPerRegion = UINT_MAX);
std::vector<std::vector<std::vector<poplar::Interval>>> splitRegions(
    const std::vector<std::vector<poplar::Interval>> &regions, unsigned grainSize,
    unsigned maxPartitions, unsigned minElementsPerPartition = 0,
    unsigned maxElementsPerPartition = UINT_MAX, unsigned maxElementsPerRegion = UINT_MAX);
/// The same with a part for each worker of a tile.
std::vector<std::vector<poplar::Interval>> splitRegionsBetweenWorkers(
    const poplar::Target &target, const std::vector<poplar::Interval> &regions, unsigned grainSize,
    unsigned minElementsPerPartition = 0, unsigned maxElementsPerPartition = UINT_MAX,
    unsigned maxElementsPerRegion = UINT_MAX);
std::vector<std::vector<std::vector<poplar::Interval>>> splitRegionsBetweenWorkers(
    const poplar::Target &target, const std::vector<std::vector<poplar::Interval>> &regions,
    unsigned grainSize, unsigned minElementsPerPartition = 0,
    unsigned maxElementsPerPartition = UINT_MAX, unsigned maxElementsPerRegion = UINT_MAX);

/// The coordinates of an index in row-major order, and the inverse.
template <typename T>
std::vector<T> unflattenIndex(const std::vector<T> &shape, std::size_t index) {
  std::vector<T> coordinates(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    coordinates[d] = static_cast<T>(index % static_cast<std::size_t>(shape[d]));
    index /= static_cast<std::size_t>(shape[d]);
  }
  if (index != 0) throw poplibs_error("poputil::unflattenIndex: the index is beyond the shape.");
  return coordinates;
}
template <typename T>
std::size_t flattenIndex(const std::vector<T> &shape, const std::vector<T> &indices) {
  if (shape.size() != indices.size()) {
    throw poplibs_error("poputil::flattenIndex: shape and indices have different lengths.");
  }
  std::size_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    index = index * static_cast<std::size_t>(shape[d]) + static_cast<std::size_t>(indices[d]);
  }
  return index;
}

/// A range in nearly equal parts: their sizes, the larger ones first.
std::vector<int> balancedPartition(int rangeUpperBound, int splitCount);

/// Splits dimensions by factors: {d0 / f0, d1 / f1, ..., f0, f1, ...}; and the inverse.
poplar::Tensor factorDims(const poplar::Tensor &t, const std::vector<std::size_t> &factors,
                          unsigned startDim = 0);
poplar::Tensor unfactorDims(const poplar::Tensor &t, unsigned numDims, unsigned startDim = 0);

/// A new tensor with the same values.
poplar::Tensor duplicate(
    poplar::Graph &graph, const poplar::Tensor &in, poplar::program::Sequence &prog,
    const poplar::DebugContext &debugContext = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
/// N clones, in a new first dimension.
poplar::Tensor cloneN(
    poplar::Graph &graph, const poplar::Tensor &t, unsigned N,
    const poplar::DebugContext &debugContext = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);

/// Tensors with the format and scale of 8-bit floats, on tile 0.
poplar::Tensor createConstantMetadataTensor(poplar::Graph &graph,
                                            poplar::QuarterMetadata::Format fp8Format,
                                            int fp8Scale);
poplar::Tensor createVariableMetadataTensor(poplar::Graph &graph,
                                            poplar::QuarterMetadata::Format fp8Format,
                                            int fp8Scale);

/// A number rounded to half.
double castToDeviceHalfValue(const poplar::Target &target, double input);
/// Whether a number keeps a relative tolerance in another type.
bool checkAccuracyWhenCast(const poplar::Target &target, double input, poplar::Type inputType,
                           poplar::Type outputType, double tolerance);

}  // namespace poputil

#endif  // poputil_Util_hpp
