#include "view.h"

#include <algorithm>
#include <utility>

namespace poplar::core {

void RunList::Add(Run run) {
  if (run.count == 0) return;
  if (run.count == 1) run.stride = 1;
  size_ += run.count;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (last.var == run.var) {
      const int64_t step = run.begin - last.At(last.count - 1);
      const bool fits_last = last.count == 1 || step == last.stride;
      const bool fits_run = run.count == 1 || step == run.stride;
      if (fits_last && fits_run) {
        last.stride = step;
        last.count += run.count;
        return;
      }
    }
  }
  starts_.push_back(size_ - run.count);
  runs_.push_back(run);
}

size_t RunList::Find(uint64_t index) const {
  return std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin() - 1;
}

void RunList::Cut(uint64_t begin, uint64_t count,
                  const std::function<void(const Run&)>& visit) const {
  for (size_t i = count == 0 ? 0 : Find(begin); count > 0; ++i) {
    Run run = runs_[i];
    const uint64_t skip = begin - starts_[i];
    const uint64_t taken = std::min(count, run.count - skip);
    run.begin = run.At(skip);
    run.count = taken;
    visit(run);
    begin += taken;
    count -= taken;
  }
}

std::pair<uint32_t, int64_t> RunList::At(uint64_t index) const {
  const size_t i = Find(index);
  return {runs_[i].var, runs_[i].At(index - starts_[i])};
}

size_t CountOf(ArrayRef<size_t> shape) {
  size_t count = 1;
  for (const size_t size : shape) count *= size;
  return count;
}

size_t View::NumElements() const { return CountOf(shape); }

std::vector<int64_t> RowMajorStrides(ArrayRef<size_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= static_cast<int64_t>(shape[i]);
  }
  return strides;
}

ViewPtr WholeVariable(GraphData* graph, uint32_t var, Type type, std::vector<size_t> shape) {
  auto view = std::make_shared<View>();
  view->graph = graph;
  view->type = type;
  view->strided = {var, 0, RowMajorStrides(shape)};
  view->shape = std::move(shape);
  return view;
}

namespace {

// Dimensions of more than one element, those joined that are one run.
void Collapse(const std::vector<size_t>& shape, const std::vector<int64_t>& strides,
              std::vector<std::pair<size_t, int64_t>>* dims) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!dims->empty() && dims->back().second == strides[i] * static_cast<int64_t>(shape[i])) {
      dims->back() = {dims->back().first * shape[i], strides[i]};
    } else {
      dims->push_back({shape[i], strides[i]});
    }
  }
}

void ForEachRunOf(const Strided& strided, const std::vector<size_t>& shape,
                  const std::function<void(const Run&)>& visit) {
  if (CountOf(shape) == 0) return;
  std::vector<std::pair<size_t, int64_t>> dims;
  Collapse(shape, strided.strides, &dims);
  Run run{strided.var, strided.offset, 1, 1};
  if (!dims.empty()) {
    run.count = dims.back().first;
    run.stride = dims.back().second;
    dims.pop_back();
  }
  std::vector<size_t> index(dims.size(), 0);
  while (true) {
    visit(run);
    size_t d = dims.size();
    while (d-- > 0) {
      run.begin += dims[d].second;
      if (++index[d] < dims[d].first) break;
      run.begin -= dims[d].second * static_cast<int64_t>(dims[d].first);
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

}  // namespace

void ForEachRun(const View& view, const std::function<void(const Run&)>& visit) {
  if (view.runs == nullptr) {
    ForEachRunOf(view.strided, view.shape, visit);
  } else {
    for (const Run& run : view.runs->runs()) visit(run);
  }
}

RunList RunsOf(const View& view) {
  if (view.runs != nullptr) return *view.runs;
  RunList list;
  ForEachRun(view, [&](const Run& run) { list.Add(run); });
  return list;
}

ViewPtr Gathered(GraphData* graph, Type type, std::vector<size_t> shape, RunList runs) {
  auto view = std::make_shared<View>();
  view->graph = graph;
  view->type = type;
  view->shape = std::move(shape);
  if (runs.runs().size() == 1) {  // strided after all
    const Run& run = runs.runs()[0];
    view->strided = {run.var, run.begin, RowMajorStrides(view->shape)};
    for (int64_t& stride : view->strided.strides) stride *= run.stride;
  } else {
    view->runs = std::make_shared<const RunList>(std::move(runs));
  }
  return view;
}

ViewPtr Rearranged(const View& view, std::vector<size_t> shape, int64_t offset,
                   std::vector<int64_t> strides) {
  // Only for strided views are `strides` those of memory: see `RowMajorStrides`.
  if (view.runs == nullptr) {
    auto result = std::make_shared<View>();
    result->graph = view.graph;
    result->type = view.type;
    result->shape = std::move(shape);
    result->strided = {view.strided.var, offset, std::move(strides)};
    return result;
  }
  RunList list;
  const Strided logical{0, offset, std::move(strides)};
  ForEachRunOf(logical, shape, [&](const Run& run) {
    if (run.stride == 1) {
      view.runs->Cut(run.begin, run.count, [&](const Run& part) { list.Add(part); });
      return;
    }
    for (uint64_t i = 0; i < run.count; ++i) {
      const auto [var, element] = view.runs->At(run.At(i));
      list.Add({var, element, 1, 1});
    }
  });
  return Gathered(view.graph, view.type, std::move(shape), std::move(list));
}

namespace {

// The strides of a strided view with another shape, if there are any.
bool StridesOfReshape(const View& view, const std::vector<size_t>& shape,
                      std::vector<int64_t>* strides) {
  std::vector<std::pair<size_t, int64_t>> dims;
  Collapse(view.shape, view.strided.strides, &dims);
  strides->assign(shape.size(), 1);
  size_t left = 1;  // elements of the dimension of `dims` that are not distributed yet
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (left == 1) {
      if (dims.empty()) return false;
      left = dims.back().first;
      stride = dims.back().second;
      dims.pop_back();
    }
    if (left % shape[i] != 0) return false;
    (*strides)[i] = stride;
    stride *= static_cast<int64_t>(shape[i]);
    left /= shape[i];
  }
  return dims.empty() && left == 1;
}

}  // namespace

ViewPtr Reshaped(const View& view, std::vector<size_t> shape) {
  auto result = std::make_shared<View>(view);
  if (view.runs == nullptr && view.NumElements() > 0) {
    std::vector<int64_t> strides;
    if (!StridesOfReshape(view, shape, &strides)) {
      return Gathered(view.graph, view.type, std::move(shape), RunsOf(view));
    }
    result->strided.strides = std::move(strides);
  } else if (view.runs == nullptr) {
    result->strided.strides = RowMajorStrides(shape);
  }
  result->shape = std::move(shape);
  return result;
}

ViewPtr Reinterpreted(const View& view, Type type) {
  auto result = std::make_shared<View>(view);
  result->type = type;
  return result;
}

}  // namespace poplar::core
