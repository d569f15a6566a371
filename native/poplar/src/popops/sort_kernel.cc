// Selects the first elements of rows by their keys.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "popops/elements.h"
#include "popops/ops.h"

namespace popops {
namespace {

using poplar::core::KernelSpec;

constexpr size_t kGrain = 4096;  // elements

// The order of keys. Numbers come before what is not a number.
template <typename T>
bool Less(T a, T b) {
  if constexpr (std::is_floating_point<T>::value) {
    if (b != b) return a == a;
  }
  return a < b;
}

// Keys of the row as the type they are compared in.
template <typename T>
using Key = typename std::conditional<std::is_integral<T>::value, T, float>::type;

class TopKKernel : public poplar::core::Kernel {
 public:
  explicit TopKKernel(const KernelSpec& spec) : element_(ElementOf(spec.inputs[0].type)) {
    ParameterReader reader(spec.parameters);
    largest_ = reader.Next<bool>();
    ascending_ = reader.Next<bool>();
    indices_ = reader.Next<bool>();
    row_ = spec.inputs[0].shape.back();
    k_ = spec.outputs[0].shape.back();
    rows_ = row_ == 0 ? 0 : CountOf(spec.inputs[0].shape) / row_;
    for (const auto& input : spec.inputs) sizes_.push_back(TensorSizeOf(ElementOf(input.type)));
  }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    const size_t grain = std::max<size_t>(1, kGrain / std::max<size_t>(1, row_));
    poplar::core::parallelFor(rows_, grain, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) Write(r, OrderOf(inputs[0], r), inputs, outputs);
    });
  }

 private:
  // The indices of the first k elements of a row.
  std::vector<uint32_t> OrderOf(const void* keys, size_t r) const {
    std::vector<uint32_t> order(row_);
    std::iota(order.begin(), order.end(), 0u);
    WithElement(element_, [&](auto zero) {
      using T = decltype(zero);
      const T* row = static_cast<const T*>(keys) + r * row_;
      const std::vector<Key<T>> values(row, row + row_);
      // Of equal elements, the first one comes first.
      const auto before = [&](uint32_t a, uint32_t b) {
        if (Less(values[a], values[b])) return !largest_;
        if (Less(values[b], values[a])) return largest_;
        return a < b;
      };
      if (k_ < row_) {
        std::partial_sort(order.begin(), order.begin() + k_, order.end(), before);
      } else {
        std::sort(order.begin(), order.end(), before);
      }
      order.resize(k_);
      if (largest_ != ascending_) return;
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return ascending_ ? Less(values[a], values[b]) : Less(values[b], values[a]);
      });
    });
    return order;
  }

  void Write(size_t r, const std::vector<uint32_t>& order, const std::vector<const void*>& inputs,
             const std::vector<void*>& outputs) const {
    for (size_t t = 0; t < inputs.size(); ++t) {
      const size_t size = sizes_[t];
      const char* first = static_cast<const char*>(inputs[t]) + r * row_ * size;
      // A copy, as the row may be where its elements go.
      const std::vector<char> row(first, first + row_ * size);
      char* out = static_cast<char*>(outputs[t]) + r * k_ * size;
      for (size_t i = 0; i < k_; ++i) std::memcpy(out + i * size, &row[order[i] * size], size);
    }
    if (indices_) {
      std::copy(order.begin(), order.end(), static_cast<uint32_t*>(outputs.back()) + r * k_);
    }
  }

  const Element element_;
  bool largest_, ascending_, indices_;
  size_t row_, k_, rows_;
  std::vector<size_t> sizes_;
};

const poplar::core::KernelRegistration kTopK("popops::topK", [](const KernelSpec& spec) {
  return std::unique_ptr<poplar::core::Kernel>(new TopKKernel(spec));
});

}  // namespace
}  // namespace popops
