// Views: which elements of which variables a tensor has, in which order.
#ifndef TENSORFLOW_IPU_POPLAR_VIEW_H_
#define TENSORFLOW_IPU_POPLAR_VIEW_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "poplar/Tensor.hpp"

namespace poplar::core {

// Elements of one variable: begin, begin + stride, and so on.
struct Run {
  uint32_t var;
  int64_t begin;
  uint64_t count;
  int64_t stride;

  int64_t At(uint64_t index) const { return begin + static_cast<int64_t>(index) * stride; }
  // The same elements in ascending order are contiguous.
  int64_t Lowest() const { return stride < 0 ? At(count - 1) : begin; }
  int64_t Highest() const { return stride < 0 ? begin : At(count - 1); }
};

// Runs one after the other, with the index at which each begins.
class RunList {
 public:
  // Joins with the last run where both are one.
  void Add(Run run);
  const std::vector<Run>& runs() const { return runs_; }
  uint64_t size() const { return size_; }
  // Calls `visit` with the runs of the elements from `begin` on.
  void Cut(uint64_t begin, uint64_t count, const std::function<void(const Run&)>& visit) const;
  std::pair<uint32_t, int64_t> At(uint64_t index) const;

 private:
  size_t Find(uint64_t index) const;

  std::vector<Run> runs_;
  std::vector<uint64_t> starts_;
  uint64_t size_ = 0;
};

// A place in one variable for each index, as NumPy has it.
struct Strided {
  uint32_t var = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

struct GraphData;

// Either strided, or any list of runs in row-major order.
struct View {
  GraphData* graph;
  Type type;
  std::vector<size_t> shape;
  Strided strided;
  std::shared_ptr<const RunList> runs;  // null for a strided view

  size_t NumElements() const;
};

using ViewPtr = std::shared_ptr<const View>;

size_t CountOf(ArrayRef<size_t> shape);

// All elements of a variable.
ViewPtr WholeVariable(GraphData* graph, uint32_t var, Type type, std::vector<size_t> shape);

// Calls `visit` with the elements in row-major order.
void ForEachRun(const View& view, const std::function<void(const Run&)>& visit);
RunList RunsOf(const View& view);

// The view of `shape` whose index i is the element at offset + sum(i * strides) of `view` in
// row-major order of it. All operations on tensors are such.
ViewPtr Rearranged(const View& view, std::vector<size_t> shape, int64_t offset,
                   std::vector<int64_t> strides);
// As if `view` were strided with these: what `Rearranged` takes to leave it as it is.
std::vector<int64_t> RowMajorStrides(ArrayRef<size_t> shape);
ViewPtr Reshaped(const View& view, std::vector<size_t> shape);
ViewPtr Reinterpreted(const View& view, Type type);
ViewPtr Gathered(GraphData* graph, Type type, std::vector<size_t> shape, RunList runs);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_VIEW_H_
