// Slices at offsets that are read when a program runs.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "poplar/core/Halves.hpp"
#include "poplar/core/LibraryOp.hpp"
#include "popops/elements.h"
#include "popops/ops.h"
#include "popops/slice_ops.h"

#pragma GCC optimize("O3")

namespace popops {
namespace {

using poplar::core::Kernel;
using poplar::core::KernelRegistration;
using poplar::core::KernelSpec;

// Bytes that are worth a thread.
constexpr size_t kGrain = 1 << 16;

// Where the elements of a slice are in a table.
class SliceGeometry {
 public:
  SliceGeometry(const std::vector<size_t>& shape, const SliceParameters& parameters)
      : dims_(parameters.dims), last_(0) {
    sizes_ = shape;
    slice_ = shape;
    offset_of_.assign(shape.size(), -1);
    for (size_t i = 0; i < dims_.size(); ++i) {
      slice_[dims_[i]] = parameters.sizes[i];
      offset_of_[dims_[i]] = static_cast<int>(i);
      last_ = std::max(last_, dims_[i]);
    }
    strides_.assign(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;) strides_[d - 1] = strides_[d] * shape[d];
  }

  size_t NumDims() const { return dims_.size(); }
  size_t TableCount() const { return CountOf(sizes_); }
  size_t SliceCount() const { return CountOf(slice_); }

  // Whether all offsets are within their dimensions.
  bool IsInside(const uint32_t* offsets) const {
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (offsets[i] >= sizes_[dims_[i]]) return false;
    }
    return true;
  }
  // Whether all offsets are the ends of their dimensions.
  bool IsAtEnd(const uint32_t* offsets) const {
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (offsets[i] != sizes_[dims_[i]]) return false;
    }
    return true;
  }

  // Calls `visit(in table, in slice, count)` for runs of elements.
  template <typename Visit>
  void ForEachRun(const uint32_t* offsets, Visit visit) const {
    if (sizes_.empty()) return visit(0, 0, 1);
    if (SliceCount() == 0) return;
    std::vector<size_t> index(last_, 0);
    const size_t inner = strides_[last_];
    const size_t begin = OffsetIn(last_, offsets);
    const size_t before_end = std::min(slice_[last_], sizes_[last_] - begin);
    size_t at = 0;
    while (true) {
      size_t base = 0;
      for (size_t d = 0; d < last_; ++d) {
        base += (OffsetIn(d, offsets) + index[d]) % sizes_[d] * strides_[d];
      }
      visit(base + begin * inner, at, before_end * inner);
      at += before_end * inner;
      // On from the beginning of the dimension.
      for (size_t left = slice_[last_] - before_end; left > 0;) {
        const size_t count = std::min(left, sizes_[last_]);
        visit(base, at, count * inner);
        at += count * inner;
        left -= count;
      }
      size_t d = last_;
      while (d-- > 0) {
        if (++index[d] < slice_[d]) break;
        index[d] = 0;
      }
      if (d == static_cast<size_t>(-1)) return;
    }
  }

 private:
  size_t OffsetIn(size_t d, const uint32_t* offsets) const {
    if (offset_of_[d] < 0) return 0;
    const size_t offset = offsets[offset_of_[d]];
    return offset < sizes_[d] ? offset : 0;
  }

  std::vector<size_t> dims_, sizes_, slice_, strides_;
  std::vector<int> offset_of_;
  size_t last_;
};

// One slice, read or written.
class DynamicKernel : public Kernel {
 public:
  DynamicKernel(const KernelSpec& spec, bool writes)
      : geometry_(spec.inputs[0].shape, SliceParameters(spec.parameters)),
        size_(TensorSizeOf(ElementOf(spec.inputs[0].type))),
        writes_(writes) {}

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    const uint32_t* offsets = static_cast<const uint32_t*>(inputs.back());
    char* out = static_cast<char*>(outputs[0]);
    if (writes_) {
      const char* slice = static_cast<const char*>(inputs[1]);
      geometry_.ForEachRun(offsets, [&](size_t in_table, size_t in_slice, size_t count) {
        std::memcpy(out + in_table * size_, slice + in_slice * size_, count * size_);
      });
    } else {
      const char* table = static_cast<const char*>(inputs[0]);
      geometry_.ForEachRun(offsets, [&](size_t in_table, size_t in_slice, size_t count) {
        std::memcpy(out + in_slice * size_, table + in_table * size_, count * size_);
      });
    }
  }

 private:
  const SliceGeometry geometry_;
  const size_t size_;
  const bool writes_;
};

// The parts that lookups and updates share: groups of tables and their offsets.
class MultiKernel : public Kernel {
 protected:
  MultiKernel(const KernelSpec& spec, const poplar::core::KernelTensor& offsets)
      : parameters_(spec.parameters),
        geometry_(TableShape(spec.inputs[0].shape, parameters_.grouped), parameters_),
        element_(ElementOf(spec.inputs[0].type)),
        size_(TensorSizeOf(element_)),
        zeros_(geometry_.NumDims(), 0) {
    groups_ = parameters_.grouped ? spec.inputs[0].shape[0] : 1;
    const size_t numbers = CountOf(offsets.shape);
    lookups_ = numbers / std::max<size_t>(1, groups_ * geometry_.NumDims());
  }

  static std::vector<size_t> TableShape(std::vector<size_t> shape, bool grouped) {
    if (grouped) shape.erase(shape.begin());
    return shape;
  }

  // The offsets of a lookup: beyond the dimensions they may stand for 0.
  const uint32_t* OffsetsOf(const void* offsets, size_t lookup) const {
    const uint32_t* own = static_cast<const uint32_t*>(offsets) + lookup * geometry_.NumDims();
    return parameters_.remaps && !geometry_.IsInside(own) ? zeros_.data() : own;
  }

  const SliceParameters parameters_;
  const SliceGeometry geometry_;
  const Element element_;
  const size_t size_;
  const std::vector<uint32_t> zeros_;
  size_t groups_, lookups_;
};

class MultiSliceKernel : public MultiKernel {
 public:
  explicit MultiSliceKernel(const KernelSpec& spec) : MultiKernel(spec, spec.inputs[1]) {}

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    const size_t slice_bytes = geometry_.SliceCount() * size_;
    const size_t grain = std::max<size_t>(1, kGrain / std::max<size_t>(1, slice_bytes));
    poplar::core::parallelFor(groups_ * lookups_, grain, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const char* table =
            static_cast<const char*>(inputs[0]) + i / lookups_ * geometry_.TableCount() * size_;
        char* out = static_cast<char*>(outputs[0]) + i * slice_bytes;
        Lookup(table, OffsetsOf(inputs[1], i), out);
      }
    });
  }

 private:
  void Lookup(const char* table, const uint32_t* offsets, char* out) const {
    if (!geometry_.IsInside(offsets)) {
      if (parameters_.pads && geometry_.IsAtEnd(offsets)) {
        std::memset(out, 0, geometry_.SliceCount() * size_);
      }
      return;
    }
    geometry_.ForEachRun(offsets, [&](size_t in_table, size_t in_slice, size_t count) {
      std::memcpy(out + in_slice * size_, table + in_table * size_, count * size_);
    });
  }
};

// Combines a run of a table with one of a slice.
template <typename T, typename Combine>
void CombineRun(T* table, const T* slice, size_t count, Combine combine) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) table[i] = static_cast<T>(combine(table[i], slice[i]));
}
template <typename Combine>
void CombineRun(poplar::IeeeHalf* table, const poplar::IeeeHalf* slice, size_t count,
                Combine combine) {
  constexpr size_t kBlock = 256;
  float a[kBlock], b[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    uint16_t* bits = reinterpret_cast<uint16_t*>(table + begin);
    poplar::core::halvesToFloats(bits, a, n);
    poplar::core::halvesToFloats(reinterpret_cast<const uint16_t*>(slice + begin), b, n);
    CombineRun(a, b, n, combine);
    poplar::core::floatsToHalves(a, bits, n);
  }
}

class MultiUpdateKernel : public MultiKernel {
 public:
  explicit MultiUpdateKernel(const KernelSpec& spec) : MultiKernel(spec, spec.inputs[2]) {
    if (spec.inputs.size() > 3) scale_ = ElementOf(spec.inputs[3].type);
    one_row_ = parameters_.sizes == std::vector<size_t>{1};
  }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    const double scale = inputs.size() > 3 ? NumberAt(inputs[3], scale_) : 1;
    WithElement(element_, [&](auto zero) {
      using T = decltype(zero);
      Update(static_cast<const T*>(inputs[1]), inputs[2], static_cast<T*>(outputs[0]), scale);
    });
  }

 private:
  template <typename T>
  void Update(const T* slices, const void* offsets, T* tables, double scale) const {
    const size_t bytes = groups_ * lookups_ * geometry_.SliceCount() * sizeof(T);
    // Each part has rows of its own, so the updates of one row stay in order.
    const size_t parts = one_row_ && bytes > kGrain ? 8 : 1;
    poplar::core::parallelFor(parts, 1, [&](size_t begin, size_t end) {
      for (size_t i = 0; i < groups_ * lookups_; ++i) {
        const uint32_t* at = OffsetsOf(offsets, i);
        const size_t part = parts == 1 ? 0 : at[0] % parts;
        if (part < begin || part >= end || !geometry_.IsInside(at)) continue;
        T* table = tables + i / lookups_ * geometry_.TableCount();
        const T* slice = slices + i * geometry_.SliceCount();
        geometry_.ForEachRun(at, [&](size_t in_table, size_t in_slice, size_t count) {
          Combine(table + in_table, slice + in_slice, count, scale);
        });
      }
    });
  }

  template <typename T>
  void Combine(T* table, const T* slice, size_t count, double scale) const {
    switch (parameters_.update) {
      case SliceUpdate::kNone:
        std::memcpy(static_cast<void*>(table), slice, count * sizeof(T));
        return;
      case SliceUpdate::kAdd:
        if constexpr (std::is_integral<T>::value) {
          const int64_t factor = static_cast<int64_t>(scale);
          return CombineRun(table, slice, count,
                            [factor](auto a, auto b) { return a + factor * b; });
        } else {
          const float factor = static_cast<float>(scale);
          return CombineRun(table, slice, count,
                            [factor](float a, float b) { return a + factor * b; });
        }
      case SliceUpdate::kMax:
        return CombineRun(table, slice, count, [](auto a, auto b) { return a > b ? a : b; });
      case SliceUpdate::kMul:
        return CombineRun(table, slice, count, [](auto a, auto b) { return a * b; });
    }
  }

  Element scale_ = Element::kFloat;
  bool one_row_;
};

const KernelRegistration kSlice("popops::dynamicSlice", [](const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new DynamicKernel(spec, false));
});
const KernelRegistration kUpdate("popops::dynamicUpdate", [](const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new DynamicKernel(spec, true));
});
const KernelRegistration kMultiSlice("popops::multiSlice", [](const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new MultiSliceKernel(spec));
});
const KernelRegistration kMultiUpdate("popops::multiUpdate", [](const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new MultiUpdateKernel(spec));
});

}  // namespace
}  // namespace popops
