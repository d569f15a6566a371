#include "poplar/Tensor.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "access.h"
#include "graph_data.h"
#include "poplar/exceptions.hpp"
#include "view.h"

namespace poplar {

using core::Access;
using core::Rearranged;
using core::Run;
using core::View;

namespace {

const View& Valid(const std::shared_ptr<const View>& view) {
  if (view == nullptr) throw poplar_error("A Tensor that is not valid was used.");
  return *view;
}

std::string Text(ArrayRef<size_t> shape) {
  std::string text = "{";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "}";
}

void CheckDimension(const View& view, size_t dimension, const char* function) {
  if (dimension < view.shape.size()) return;
  throw index_error(std::string("Tensor::") + function + ": dimension " +
                    std::to_string(dimension) + " of a tensor of shape " + Text(view.shape) +
                    " does not exist.");
}

// The strides that `Rearranged` takes to leave a view as it is.
std::vector<int64_t> StridesOf(const View& view) {
  return view.runs == nullptr ? view.strided.strides : core::RowMajorStrides(view.shape);
}

int64_t OffsetOf(const View& view) { return view.runs == nullptr ? view.strided.offset : 0; }

// Changes shape, offset and strides of a view and makes a tensor of it.
class Rearrangement {
 public:
  explicit Rearrangement(const View& view)
      : view_(view), shape(view.shape), offset(OffsetOf(view)), strides(StridesOf(view)) {}

  Tensor Make() {
    return Access::Make<Tensor>(Rearranged(view_, std::move(shape), offset, std::move(strides)));
  }

 private:
  const View& view_;

 public:
  std::vector<size_t> shape;
  int64_t offset;
  std::vector<int64_t> strides;
};

}  // namespace

Tensor::Tensor() = default;

Type Tensor::elementType() const { return Valid(view_).type; }
std::vector<size_t> Tensor::shape() const { return Valid(view_).shape; }
unsigned Tensor::rank() const { return static_cast<unsigned>(Valid(view_).shape.size()); }
size_t Tensor::numElements() const { return Valid(view_).NumElements(); }

size_t Tensor::dim(unsigned dimension) const {
  CheckDimension(Valid(view_), dimension, "dim");
  return view_->shape[dimension];
}

Tensor Tensor::operator[](size_t index) const {
  CheckDimension(Valid(view_), 0, "operator[]");
  if (index >= view_->shape[0]) {
    throw index_error("Tensor::operator[]: index " + std::to_string(index) +
                      " is not below the size of dimension 0 of shape " + Text(view_->shape) + ".");
  }
  Rearrangement r(*view_);
  r.offset += static_cast<int64_t>(index) * r.strides[0];
  r.shape.erase(r.shape.begin());
  r.strides.erase(r.strides.begin());
  return r.Make();
}

Tensor Tensor::index(ArrayRef<size_t> indices) const {
  Tensor result = *this;
  for (const size_t i : indices) result = result[i];
  return result;
}

Tensor Tensor::slice(size_t begin, size_t end, unsigned dimension) const {
  CheckDimension(Valid(view_), dimension, "slice");
  if (begin > end || end > view_->shape[dimension]) {
    throw index_error("Tensor::slice: [" + std::to_string(begin) + "," + std::to_string(end) +
                      ") is not within dimension " + std::to_string(dimension) + " of shape " +
                      Text(view_->shape) + ".");
  }
  Rearrangement r(*view_);
  r.offset += static_cast<int64_t>(begin) * r.strides[dimension];
  r.shape[dimension] = end - begin;
  return r.Make();
}

Tensor Tensor::slice(ArrayRef<size_t> begin, ArrayRef<size_t> end) const {
  if (begin.size() != end.size() || begin.size() > rank()) {
    throw index_error("Tensor::slice: " + std::to_string(begin.size()) + " begins and " +
                      std::to_string(end.size()) + " ends for a tensor of rank " +
                      std::to_string(rank()) + ".");
  }
  Tensor result = *this;
  for (unsigned d = 0; d < begin.size(); ++d) result = result.slice(begin[d], end[d], d);
  return result;
}

std::vector<Tensor> Tensor::slices(ArrayRef<Interval> intervals, unsigned dimension) const {
  std::vector<Tensor> result;
  for (const Interval& interval : intervals) result.push_back(slice(interval, dimension));
  return result;
}

std::vector<Tensor> Tensor::slices(const std::vector<std::vector<Interval>>& intervals,
                                   unsigned dimension) const {
  std::vector<Tensor> result;
  for (const auto& list : intervals) {
    result.push_back(list.empty() ? slice(0, 0, dimension)
                                  : concat(slices(list, dimension), dimension));
  }
  return result;
}

std::vector<Tensor> Tensor::slices(const ArrayRef<unsigned>& indices, unsigned dimension) const {
  std::vector<Tensor> result;
  for (const unsigned i : indices) result.push_back(slice(i, i + 1, dimension));
  return result;
}

Tensor Tensor::flatten() const { return reshape({numElements()}); }

Tensor Tensor::flatten(unsigned dimBegin, unsigned dimEnd) const {
  if (dimBegin > dimEnd || dimEnd > rank()) {
    throw index_error("Tensor::flatten: dimensions [" + std::to_string(dimBegin) + "," +
                      std::to_string(dimEnd) + ") of rank " + std::to_string(rank()) + ".");
  }
  size_t count = 1;
  for (unsigned d = dimBegin; d < dimEnd; ++d) count *= view_->shape[d];
  return reshapePartial(dimBegin, dimEnd, {count});
}

Tensor Tensor::reshape(ArrayRef<size_t> shape) const {
  if (core::CountOf(shape) != numElements()) {
    throw index_error("Tensor::reshape: shape " + Text(shape) +
                      " has another number of elements"
                      " than " +
                      Text(view_->shape) + ".");
  }
  return Access::Make<Tensor>(core::Reshaped(*view_, shape.cloneAsVector()));
}

Tensor Tensor::reshapePartial(unsigned beginDim, unsigned endDim, ArrayRef<size_t> dims) const {
  if (beginDim > endDim || endDim > rank()) {
    throw index_error("Tensor::reshapePartial: dimensions [" + std::to_string(beginDim) + "," +
                      std::to_string(endDim) + ") of rank " + std::to_string(rank()) + ".");
  }
  const std::vector<size_t>& old = Valid(view_).shape;
  std::vector<size_t> shape(old.begin(), old.begin() + beginDim);
  shape.insert(shape.end(), dims.begin(), dims.end());
  shape.insert(shape.end(), old.begin() + endDim, old.end());
  return reshape(shape);
}

Tensor Tensor::dimShuffle(ArrayRef<unsigned> permutation) const {
  std::vector<unsigned> sorted = permutation.cloneAsVector();
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = sorted.size() == rank();
  for (unsigned d = 0; is_permutation && d < sorted.size(); ++d) is_permutation = sorted[d] == d;
  if (!is_permutation) {
    throw index_error("Tensor::dimShuffle: the argument is no permutation of the " +
                      std::to_string(rank()) + " dimensions of the tensor.");
  }
  Rearrangement r(Valid(view_));
  const Rearrangement old(*view_);
  for (unsigned d = 0; d < permutation.size(); ++d) {
    r.shape[d] = old.shape[permutation[d]];
    r.strides[d] = old.strides[permutation[d]];
  }
  return r.Make();
}

Tensor Tensor::dimShufflePartial(ArrayRef<unsigned> source, ArrayRef<unsigned> destination) const {
  if (source.size() != destination.size()) {
    throw index_error("Tensor::dimShufflePartial: as many sources as destinations are needed.");
  }
  constexpr unsigned kFree = ~0u;
  std::vector<unsigned> permutation(rank(), kFree);
  std::vector<bool> used(rank(), false);
  for (size_t i = 0; i < source.size(); ++i) {
    CheckDimension(*view_, source[i], "dimShufflePartial");
    CheckDimension(*view_, destination[i], "dimShufflePartial");
    permutation[destination[i]] = source[i];
    used[source[i]] = true;
  }
  unsigned next = 0;
  for (unsigned& d : permutation) {
    if (d != kFree) continue;
    while (used[next]) ++next;
    d = next++;
  }
  return dimShuffle(permutation);
}

Tensor Tensor::dimRoll(unsigned dimension, unsigned newIndex) const {
  CheckDimension(Valid(view_), dimension, "dimRoll");
  CheckDimension(*view_, newIndex, "dimRoll");
  std::vector<unsigned> permutation;
  for (unsigned d = 0; d < rank(); ++d) {
    if (d != dimension) permutation.push_back(d);
  }
  permutation.insert(permutation.begin() + newIndex, dimension);
  return dimShuffle(permutation);
}

Tensor Tensor::transpose() const {
  if (rank() != 2) {
    throw index_error("Tensor::transpose: the tensor has rank " + std::to_string(rank()) +
                      ", not 2.");
  }
  return dimShuffle({1, 0});
}

Tensor Tensor::expand(ArrayRef<size_t> indices) const {
  const std::vector<size_t>& old = Valid(view_).shape;
  std::vector<size_t> shape;
  for (size_t d = 0; d <= old.size(); ++d) {
    for (const size_t i : indices) {
      if (i > old.size()) CheckDimension(*view_, i, "expand");
      if (i == d) shape.push_back(1);
    }
    if (d < old.size()) shape.push_back(old[d]);
  }
  return reshape(shape);
}

Tensor Tensor::squeeze(ArrayRef<size_t> indices) const {
  std::vector<size_t> shape;
  for (size_t d = 0; d < Valid(view_).shape.size(); ++d) {
    const bool dropped = std::find(indices.begin(), indices.end(), d) != indices.end();
    if (dropped && view_->shape[d] != 1) {
      throw index_error("Tensor::squeeze: dimension " + std::to_string(d) + " of shape " +
                        Text(view_->shape) + " has not size 1.");
    }
    if (!dropped) shape.push_back(view_->shape[d]);
  }
  for (const size_t i : indices) CheckDimension(*view_, i, "squeeze");
  return reshape(shape);
}

Tensor Tensor::broadcast(unsigned count, unsigned dimension) const {
  CheckDimension(Valid(view_), dimension, "broadcast");
  // A new dimension with stride 0 before the old one, and both as one.
  Rearrangement r(*view_);
  r.shape.insert(r.shape.begin() + dimension, count);
  r.strides.insert(r.strides.begin() + dimension, 0);
  return r.Make().flatten(dimension, dimension + 2);
}

Tensor Tensor::upsample(unsigned scale, unsigned dimension, UpsampleMethod) const {
  CheckDimension(Valid(view_), dimension, "upsample");
  Rearrangement r(*view_);
  r.shape.insert(r.shape.begin() + dimension + 1, scale);
  r.strides.insert(r.strides.begin() + dimension + 1, 0);
  return r.Make().flatten(dimension, dimension + 2);
}

Tensor Tensor::subSample(unsigned stride, unsigned dimension) const {
  CheckDimension(Valid(view_), dimension, "subSample");
  if (stride == 0) throw index_error("Tensor::subSample: the stride is 0.");
  Rearrangement r(*view_);
  r.shape[dimension] = (r.shape[dimension] + stride - 1) / stride;
  r.strides[dimension] *= stride;
  return r.Make();
}

Tensor Tensor::reverse(unsigned dimension) const {
  CheckDimension(Valid(view_), dimension, "reverse");
  Rearrangement r(*view_);
  if (r.shape[dimension] > 0) {
    r.offset += static_cast<int64_t>(r.shape[dimension] - 1) * r.strides[dimension];
  }
  r.strides[dimension] = -r.strides[dimension];
  return r.Make();
}

Tensor Tensor::reinterpret(const Type& type) const {
  if (core::SizeOf(type) != core::SizeOf(Valid(view_).type)) {
    throw type_error("Tensor::reinterpret: " + view_->type.toString().cloneAsString() + " and " +
                     type.toString().cloneAsString() + " have different sizes.");
  }
  return Access::Make<Tensor>(core::Reinterpreted(*view_, type));
}

bool Tensor::isContiguous() const {
  const core::RunList list = core::RunsOf(Valid(view_));
  return list.runs().size() <= 1 && (list.runs().empty() || list.runs()[0].stride == 1);
}

namespace {

// The elements as intervals of variables, sorted.
std::vector<std::pair<uint32_t, Interval>> SortedIntervals(const View& view) {
  std::vector<std::pair<uint32_t, Interval>> result;
  core::ForEachRun(view, [&](const Run& run) {
    if (run.count == 0) return;
    if (run.stride == 1 || run.stride == -1) {
      result.push_back({run.var, Interval(run.Lowest(), run.Highest() + 1)});
      return;
    }
    for (uint64_t i = 0; i < run.count; ++i) {
      result.push_back({run.var, Interval(run.At(i), run.At(i) + 1)});
    }
  });
  std::sort(result.begin(), result.end());
  return result;
}

// Whether strides tell that no element is there twice: each is beyond all that lies below it.
bool HasDistinctStrides(const View& view) {
  if (view.runs != nullptr) return false;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 0) return true;
    if (view.shape[d] == 1) continue;
    dims.push_back({std::abs(view.strided.strides[d]), static_cast<int64_t>(view.shape[d]) - 1});
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, steps] : dims) {
    if (stride <= reach) return false;
    reach += stride * steps;
  }
  return true;
}

}  // namespace

bool Tensor::containsAliases() const {
  if (HasDistinctStrides(Valid(view_))) return false;
  const auto intervals = SortedIntervals(Valid(view_));
  for (size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].first == intervals[i - 1].first &&
        intervals[i].second.begin() < intervals[i - 1].second.end()) {
      return true;
    }
  }
  return false;
}

bool Tensor::containsConstant() const {
  bool found = false;
  core::ForEachRun(Valid(view_), [&](const Run& run) {
    found = found || view_->graph->variables[run.var].constant;
  });
  return found;
}

bool Tensor::isParallelWriteable() const { return !containsConstant() && !containsAliases(); }

bool Tensor::intersectsWith(const Tensor& other) const {
  const auto a = SortedIntervals(Valid(view_));
  const auto b = SortedIntervals(Valid(other.view_));
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const bool same = a[i].first == b[j].first;
    if (same && a[i].second.begin() < b[j].second.end() &&
        b[j].second.begin() < a[i].second.end()) {
      return true;
    }
    const auto end_of = [](const std::pair<uint32_t, Interval>& x) {
      return std::make_pair(x.first, x.second.end());
    };
    if (end_of(a[i]) < end_of(b[j])) {
      ++i;
    } else {
      ++j;
    }
  }
  return false;
}

std::vector<VariableInterval> Tensor::getVarRegions() const {
  std::vector<VariableInterval> result;
  const core::RunList list = core::RunsOf(Valid(view_));
  for (const Run& run : list.runs()) {
    if (run.stride == 1) {
      result.push_back({VariableRef(run.var), Interval(run.begin, run.begin + run.count)});
      continue;
    }
    for (uint64_t i = 0; i < run.count; ++i) {
      result.push_back({VariableRef(run.var), Interval(run.At(i), run.At(i) + 1)});
    }
  }
  return result;
}

std::vector<Interval> Tensor::getContiguousRegions() const {
  std::vector<Interval> result;
  size_t begin = 0;
  for (const VariableInterval& region : getVarRegions()) {
    result.push_back(Interval(begin, begin + region.interval.size()));
    begin += region.interval.size();
  }
  return result;
}

std::string Tensor::shapeToString() const { return Text(Valid(view_).shape); }

std::string Tensor::getVarStr() const {
  std::string text;
  uint32_t last = ~0u;
  core::ForEachRun(Valid(view_), [&](const Run& run) {
    if (run.var == last) return;
    last = run.var;
    text += (text.empty() ? "" : ",") + view_->graph->variables[run.var].name;
  });
  return text;
}

std::string Tensor::getDebugStr() const { return getVarStr(); }

void Tensor::dump() const { std::cerr << *this << "\n"; }

void Tensor::dumpRegions() const {
  for (const VariableInterval& region : getVarRegions()) {
    std::cerr << view_->graph->variables[region.var.id].name << region.interval << "\n";
  }
}

bool Tensor::hasMetadata() const { return view_ && core::MetadataOf(*view_) != nullptr; }

Tensor Tensor::getMetadata() const {
  const std::shared_ptr<const View> metadata = view_ ? core::MetadataOf(*view_) : nullptr;
  if (metadata != nullptr) return Access::MakeTensor(metadata);
  throw tensor_metadata_error(
      "Tensor::getMetadata: the tensor has no metadata, or parts with different ones.");
}

bool Tensor::operator==(const Tensor& other) const {
  if (view_ == other.view_) return true;
  if (view_ == nullptr || other.view_ == nullptr) return false;
  if (view_->shape != other.view_->shape || view_->type != other.view_->type) return false;
  return getVarRegions() == other.getVarRegions();
}

std::ostream& operator<<(std::ostream& os, const Tensor& tensor) {
  if (!tensor.valid()) return os << "Tensor()";
  return os << tensor.elementType() << tensor.shapeToString() << " " << tensor.getDebugStr();
}

Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension) {
  if (tensors.empty()) throw poplar_error("concat: there are no tensors.");
  const View& first = *Access::View(tensors[0]);
  CheckDimension(first, dimension, "concat");
  std::vector<size_t> shape = first.shape;
  size_t inner = 1, outer = 1;
  for (size_t d = dimension + 1; d < shape.size(); ++d) inner *= shape[d];
  for (size_t d = 0; d < dimension; ++d) outer *= shape[d];
  shape[dimension] = 0;
  std::vector<core::RunList> lists;
  for (const Tensor& tensor : tensors) {
    const View& view = *Access::View(tensor);
    bool fits = view.shape.size() == shape.size() && view.type == first.type;
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      fits = d == dimension || view.shape[d] == shape[d];
    }
    if (!fits) {
      throw poplar_error("concat: tensors of shapes " + Text(first.shape) + " and " +
                         Text(view.shape) + " and of types " +
                         first.type.toString().cloneAsString() + " and " +
                         view.type.toString().cloneAsString() + " do not fit in dimension " +
                         std::to_string(dimension) + ".");
    }
    shape[dimension] += view.shape[dimension];
    lists.push_back(core::RunsOf(view));
  }
  core::RunList result;
  for (size_t o = 0; o < outer; ++o) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      const size_t part = Access::View(tensors[t])->shape[dimension] * inner;
      if (outer == 1) {
        for (const Run& run : lists[t].runs()) result.Add(run);
      } else {
        lists[t].Cut(o * part, part, [&](const Run& run) { result.Add(run); });
      }
    }
  }
  return Access::Make<Tensor>(core::Gathered(first.graph, first.type, shape, std::move(result)));
}

Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat({first, second}, dimension);
}

Tensor append(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat(first, second.expand({dimension}), dimension);
}

Tensor append(const Tensor& first, const Tensor& second) { return append(first, second, 0); }

}  // namespace poplar
