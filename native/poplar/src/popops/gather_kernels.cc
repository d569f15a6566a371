// Windows of a tensor at places that a tensor of index vectors names.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "popops/elements.h"
#include "popops/window_ops.h"

namespace popops {
namespace {

using poplar::core::Kernel;
using poplar::core::KernelRegistration;
using poplar::core::KernelSpec;

constexpr size_t kGrain = 1 << 16;  // bytes

class WindowKernel : public Kernel {
 public:
  WindowKernel(const KernelSpec& spec, bool scatters)
      : parameters_(WindowParameters::Read(spec.parameters)),
        shape_(spec.inputs[0].shape),
        size_(TensorSizeOf(ElementOf(spec.inputs[0].type))),
        is_signed_(spec.inputs[1].type == poplar::INT),
        scatters_(scatters) {
    const size_t numbers = CountOf(spec.inputs[1].shape);
    windows_ = parameters_.dims.empty() ? CountOf(spec.inputs[1].shape)
                                        : numbers / parameters_.dims.size();
    strides_.assign(shape_.size(), 1);
    for (size_t d = shape_.size(); d-- > 1;) strides_[d - 1] = strides_[d] * shape_[d];
    // Rows of a window: a run of elements each.
    row_ = 1;
    outer_ = shape_.size();
    while (outer_ > 0) {
      --outer_;
      row_ *= parameters_.sizes[outer_];
      if (parameters_.sizes[outer_] != shape_[outer_]) break;
    }
    count_ = CountOf(parameters_.sizes);
  }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    if (scatters_) {
      for (size_t w = 0; w < windows_; ++w) {
        size_t offset;
        if (!Begin(inputs[1], w, false, &offset)) continue;
        const char* update = static_cast<const char*>(inputs[2]) + w * count_ * size_;
        CopyRows(static_cast<char*>(outputs[0]) + offset * size_, update);
      }
      return;
    }
    const size_t grain = std::max<size_t>(1, kGrain / std::max<size_t>(1, count_ * size_));
    poplar::core::parallelFor(windows_, grain, [&](size_t begin, size_t end) {
      for (size_t w = begin; w < end; ++w) {
        size_t offset;
        Begin(inputs[1], w, true, &offset);
        char* to = static_cast<char*>(outputs[0]) + w * count_ * size_;
        CopyRows(static_cast<const char*>(inputs[0]) + offset * size_, to);
      }
    });
  }

 private:
  // Where a window begins. One that reaches beyond the tensor is moved into it, or is refused.
  bool Begin(const void* vectors, size_t window, bool moves, size_t* offset) const {
    *offset = 0;
    for (size_t i = 0; i < parameters_.dims.size(); ++i) {
      const size_t d = parameters_.dims[i];
      const uint32_t raw =
          static_cast<const uint32_t*>(vectors)[window * parameters_.dims.size() + i];
      int64_t at = is_signed_ ? static_cast<int64_t>(static_cast<int32_t>(raw)) : raw;
      const int64_t last = static_cast<int64_t>(shape_[d] - parameters_.sizes[d]);
      if (!moves && (at < 0 || at > last)) return false;
      at = std::min(std::max<int64_t>(at, 0), last);
      *offset += static_cast<size_t>(at) * strides_[d];
    }
    return true;
  }

  // Either from the tensor or to it.
  void CopyRow(const char* tensor, char* window) const {
    std::memcpy(window, tensor, row_ * size_);
  }
  void CopyRow(char* tensor, const char* window) const {
    std::memcpy(tensor, window, row_ * size_);
  }

  template <typename TensorBytes, typename WindowBytes>
  void CopyRows(TensorBytes* tensor, WindowBytes* window) const {
    if (count_ == 0) return;
    std::vector<size_t> index(outer_, 0);
    while (true) {
      CopyRow(tensor, window);
      window += row_ * size_;
      size_t d = outer_;
      while (d-- > 0) {
        tensor += strides_[d] * size_;
        if (++index[d] < parameters_.sizes[d]) break;
        tensor -= strides_[d] * size_ * parameters_.sizes[d];
        index[d] = 0;
      }
      if (d == static_cast<size_t>(-1)) return;
    }
  }

  const WindowParameters parameters_;
  const std::vector<size_t> shape_;
  const size_t size_;
  const bool is_signed_, scatters_;
  std::vector<size_t> strides_;
  size_t windows_, row_, outer_, count_;
};

const KernelRegistration kGather("popops::gather", [](const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new WindowKernel(spec, false));
});
const KernelRegistration kScatter("popops::scatter", [](const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new WindowKernel(spec, true));
});

}  // namespace
}  // namespace popops
