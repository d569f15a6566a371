// Views of the elements of variables.
#ifndef poplar_Tensor_hpp
#define poplar_Tensor_hpp

#include <poplar/ArrayRef.hpp>
#include <poplar/Interval.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>
#include <poplar/VariableRef.hpp>

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace poplar {

namespace core {
struct View;
struct Access;
}  // namespace core

enum class UpsampleMethod { REPEAT };

/// A view of elements of variables and constants of a graph. Copies are views of the same.
///
/// Nothing here moves data. Dimensions and indices out of range throw index_error.
class Tensor {
 public:
  Tensor();

  bool valid() const { return view_ != nullptr; }
  Type elementType() const;
  std::vector<std::size_t> shape() const;
  unsigned rank() const;
  std::size_t numElements() const;
  std::size_t dim(unsigned dimension) const;

  Tensor operator[](std::size_t index) const;
  Tensor index(ArrayRef<std::size_t> indices) const;
  Tensor slice(std::size_t begin, std::size_t end, unsigned dimension) const;
  Tensor slice(std::size_t begin, std::size_t end) const { return slice(begin, end, 0); }
  Tensor slice(const Interval &region, unsigned dimension = 0) const {
    return slice(region.begin(), region.end(), dimension);
  }
  Tensor slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const;
  std::vector<Tensor> slices(ArrayRef<Interval> intervals, unsigned dimension = 0) const;
  std::vector<Tensor> slices(const std::vector<std::vector<Interval>> &intervals,
                             unsigned dimension = 0) const;
  std::vector<Tensor> slices(const ArrayRef<unsigned> &indices, unsigned dimension = 0) const;

  Tensor flatten() const;
  Tensor flatten(unsigned dimBegin, unsigned dimEnd) const;
  Tensor reshape(ArrayRef<std::size_t> shape) const;
  Tensor reshapePartial(unsigned beginDim, unsigned endDim, ArrayRef<std::size_t> dims) const;
  Tensor dimShuffle(ArrayRef<unsigned> permutation) const;
  Tensor dimShufflePartial(ArrayRef<unsigned> source, ArrayRef<unsigned> destination) const;
  Tensor dimRoll(unsigned dimension, unsigned newIndex = 0) const;
  Tensor transpose() const;
  Tensor expand(ArrayRef<std::size_t> indices) const;
  Tensor squeeze(ArrayRef<std::size_t> indices) const;
  Tensor broadcast(unsigned count, unsigned dimension) const;
  Tensor upsample(unsigned scale, unsigned dimension, UpsampleMethod method) const;
  Tensor subSample(unsigned stride, unsigned dimension) const;
  Tensor reverse(unsigned dimension) const;
  Tensor reinterpret(const Type &type) const;

  bool isContiguous() const;
  bool containsAliases() const;
  bool containsConstant() const;
  bool isParallelWriteable() const;
  bool intersectsWith(const Tensor &other) const;
  std::vector<Interval> getContiguousRegions() const;
  std::vector<VariableInterval> getVarRegions() const;

  std::string shapeToString() const;
  std::string getVarStr() const;
  std::string getDebugStr() const;
  void dump() const;
  void dumpRegions() const;
  bool hasMetadata() const;
  Tensor getMetadata() const;

  bool operator==(const Tensor &other) const;
  bool operator!=(const Tensor &other) const { return !(*this == other); }

 private:
  friend struct core::Access;
  std::shared_ptr<const core::View> view_;
};

std::ostream &operator<<(std::ostream &os, const Tensor &tensor);

Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension = 0);
Tensor concat(const Tensor &first, const Tensor &second, unsigned dimension = 0);
/// Adds `second` as one more element of a dimension of `first`.
Tensor append(const Tensor &first, const Tensor &second, unsigned dimension);
Tensor append(const Tensor &first, const Tensor &second);

/// Reorders elements so that views become simpler: the identity, as nothing here depends on it.
class TensorRearranger {
 public:
  Tensor rearrange(const Tensor &tensor) const { return tensor; }
  Tensor undoRearrangement(const Tensor &tensor) const { return tensor; }
  bool valid() const { return true; }
};

}  // namespace poplar

#endif  // poplar_Tensor_hpp
