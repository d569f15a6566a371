// Reductions over dimensions of row-major tensors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "poplar/core/Halves.hpp"
#include "poplar/core/LibraryOp.hpp"
#include "popops/OperationDef.hpp"
#include "popops/block_functions.h"
#include "popops/elements.h"
#include "popops/ops.h"

#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")

namespace popops {
namespace {

using poplar::core::KernelSpec;

// Elements of a row that are reduced at once, and rows of outputs that are.
constexpr size_t kSegment = 2048;
constexpr size_t kLanes = 16;
// Elements that are worth a thread.
constexpr size_t kGrain = 16384;

// Each operation: what it begins with, what an element counts, and how two are combined.
struct Add {
  template <typename T>
  static constexpr T Identity() {
    return 0;
  }
  template <typename T>
  static T Load(T x) {
    return x;
  }
  template <typename T>
  static T Combine(T a, T b) {
    return a + b;
  }
};
struct SquareAdd : Add {
  template <typename T>
  static T Load(T x) {
    return x * x;
  }
};
struct Mul : Add {
  template <typename T>
  static constexpr T Identity() {
    return 1;
  }
  template <typename T>
  static T Combine(T a, T b) {
    return a * b;
  }
};
struct Min : Add {
  template <typename T>
  static constexpr T Identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::max();
  }
  template <typename T>
  static T Combine(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max : Add {
  template <typename T>
  static constexpr T Identity() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  template <typename T>
  static T Combine(T a, T b) {
    return a > b ? a : b;
  }
};
struct And : Mul {};
struct Or : Max {
  template <typename T>
  static constexpr T Identity() {
    return 0;
  }
};
struct LogAdd : Max {
  template <typename T>
  static T Combine(T a, T b) {
    const T most = a > b ? a : b;
    if (!(std::abs(most) < std::numeric_limits<T>::infinity())) return most;
    return most + std::log1p(std::exp((a > b ? b : a) - most));
  }
};

// Sizes and strides of the dimensions, those joined that are one run.
struct Dim {
  size_t size, stride;
};

struct Layout {
  Layout(const std::vector<size_t>& shape, const std::vector<size_t>& dims) {
    std::vector<bool> reduced(shape.size(), false);
    for (const size_t d : dims) reduced[d] = true;
    size_t stride = 1;
    int last = -1;  // whether the dimension after this one is reduced
    for (size_t d = shape.size(); d-- > 0;) {
      if (shape[d] == 1) continue;
      std::vector<Dim>& to = reduced[d] ? reductions : kept;
      if (last == static_cast<int>(reduced[d])) {
        to.front().size *= shape[d];
      } else {
        to.insert(to.begin(), {shape[d], stride});
      }
      if (last < 0) inner_reduced = reduced[d];
      last = reduced[d];
      stride *= shape[d];
    }
  }

  std::vector<Dim> kept, reductions;
  // Whether the innermost dimension is reduced.
  bool inner_reduced = true;
};

size_t CountOfDims(const std::vector<Dim>& dims) {
  size_t count = 1;
  for (const Dim& dim : dims) count *= dim.size;
  return count;
}

size_t OffsetOf(const std::vector<Dim>& dims, size_t index) {
  size_t offset = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return offset;
}

// Takes the innermost dimension off; one element if there is none.
Dim TakeInner(std::vector<Dim>* dims) {
  if (dims->empty()) return {1, 1};
  const Dim inner = dims->back();
  dims->pop_back();
  return inner;
}

// Elements as they are computed with: halves become floats.
template <typename T>
const T* Elements(const void* data, size_t offset, size_t, Element, T*) {
  return static_cast<const T*>(data) + offset;
}
template <>
const float* Elements(const void* data, size_t offset, size_t count, Element element,
                      float* buffer) {
  if (element == Element::kFloat) return static_cast<const float*>(data) + offset;
  poplar::core::halvesToFloats(static_cast<const uint16_t*>(data) + offset, buffer, count);
  return buffer;
}

// Results are added up in a wide type.
template <typename T>
using Wide = typename std::conditional<
    std::is_floating_point<T>::value, double,
    typename std::conditional<std::is_signed<T>::value, int64_t, uint64_t>::type>::type;
// In a row: sums of floats stay floats, of which there are many.
template <typename T>
using Lane = typename std::conditional<std::is_floating_point<T>::value, T, Wide<T>>::type;

template <typename Op, typename T>
class Reduction {
 public:
  using W = Wide<T>;

  Reduction(const Layout& layout, Element element)
      : layout_(layout), element_(element), outer_kept_(layout.kept), outer_(layout.reductions) {
    if (layout.inner_reduced) {
      inner_ = TakeInner(&outer_);
      segments_ = (inner_.size + kSegment - 1) / kSegment;
    } else {
      inner_ = TakeInner(&outer_kept_);
    }
    rows_ = CountOfDims(outer_) * segments_;
    // Units are outputs, or runs of outputs.
    units_ = CountOfDims(outer_kept_) *
             (layout.inner_reduced ? 1 : (inner_.size + kSegment - 1) / kSegment);
  }

  std::vector<W> Run(const void* in, size_t outputs) const {
    const size_t row = std::min(inner_.size, kSegment);
    const size_t unit_elements = std::max<size_t>(1, rows_ * row);
    // Few outputs of many elements are split, and the parts combined.
    size_t splits = 1;
    if (units_ < 8 && units_ * unit_elements > 2 * kGrain) {
      splits = std::max<size_t>(1, std::min(rows_, size_t{16} / std::max<size_t>(1, units_)));
    }
    std::vector<W> partials(splits * outputs, Op::template Identity<W>());
    const size_t grain = std::max<size_t>(1, kGrain * splits / unit_elements);
    poplar::core::parallelFor(units_ * splits, grain, [&](size_t begin, size_t end) {
      std::vector<T> buffer(kSegment);
      for (size_t i = begin; i < end; ++i) {
        const size_t unit = i / splits, split = i % splits;
        const size_t first = rows_ * split / splits, last = rows_ * (split + 1) / splits;
        W* out = partials.data() + split * outputs;
        if (layout_.inner_reduced) {
          RunOutput(in, unit, first, last, buffer.data(), out);
        } else {
          RunOutputs(in, unit, first, last, buffer.data(), out);
        }
      }
    });
    for (size_t split = 1; split < splits; ++split) {
      for (size_t o = 0; o < outputs; ++o) {
        partials[o] = Op::Combine(partials[o], partials[split * outputs + o]);
      }
    }
    partials.resize(outputs);
    return partials;
  }

 private:
  // One output: rows are segments of the inner dimension.
  void RunOutput(const void* in, size_t unit, size_t first, size_t last, T* buffer, W* out) const {
    const size_t base = OffsetOf(outer_kept_, unit);
    W total = Op::template Identity<W>();
    for (size_t r = first; r < last; ++r) {
      const size_t begin = r % segments_ * kSegment;
      const size_t count = std::min(kSegment, inner_.size - begin);
      const size_t offset = base + OffsetOf(outer_, r / segments_) + begin;
      total = Op::Combine(total, Row(Elements(in, offset, count, element_, buffer), count));
    }
    out[unit] = Op::Combine(out[unit], total);
  }

  static W Row(const T* row, size_t count) {
    using L = Lane<T>;
    L lanes[kLanes];
    std::fill_n(lanes, kLanes, Op::template Identity<L>());
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (size_t l = 0; l < kLanes; ++l) {
        lanes[l] = Op::Combine(lanes[l], Op::Load(static_cast<L>(row[i + l])));
      }
    }
    W total = Op::template Identity<W>();
    for (const L lane : lanes) total = Op::Combine(total, static_cast<W>(lane));
    for (; i < count; ++i) total = Op::Combine(total, Op::Load(static_cast<W>(row[i])));
    return total;
  }

  // A run of outputs that are contiguous, as the elements that they are reduced from.
  void RunOutputs(const void* in, size_t unit, size_t first, size_t last, T* buffer, W* out) const {
    const size_t chunks = (inner_.size + kSegment - 1) / kSegment;
    const size_t begin = unit % chunks * kSegment;
    const size_t count = std::min(kSegment, inner_.size - begin);
    const size_t base = OffsetOf(outer_kept_, unit / chunks) + begin;
    W* totals = out + unit / chunks * inner_.size + begin;
    for (size_t r = first; r < last; ++r) {
      const T* row = Elements(in, base + OffsetOf(outer_, r), count, element_, buffer);
      for (size_t i = 0; i < count; ++i) {
        totals[i] = Op::Combine(totals[i], Op::Load(static_cast<W>(row[i])));
      }
    }
  }

  const Layout& layout_;
  const Element element_;
  std::vector<Dim> outer_kept_, outer_;
  Dim inner_;
  size_t segments_ = 1;
  size_t rows_, units_;
};

struct Parameters {
  explicit Parameters(const std::string& text) {
    ParameterReader reader(text);
    op = static_cast<Operation>(reader.Next<int>());
    dims = reader.List();
    scale = reader.Next<bool>();
    update = reader.Next<bool>();
  }

  Operation op;
  std::vector<size_t> dims;
  bool scale, update;
};

class ReduceKernel : public poplar::core::Kernel {
 public:
  explicit ReduceKernel(const KernelSpec& spec)
      : parameters_(spec.parameters),
        layout_(spec.inputs[0].shape, parameters_.dims),
        in_(ElementOf(spec.inputs[0].type)),
        out_(ElementOf(spec.outputs[0].type)),
        count_(CountOf(spec.outputs[0].shape)),
        empty_(CountOf(spec.inputs[0].shape) == 0) {
    if (parameters_.scale) scale_ = ElementOf(spec.inputs[1].type);
  }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    const double scale = parameters_.scale ? NumberAt(inputs[1], scale_) : 1;
    const auto run = [&](auto type) { Run<decltype(type)>(inputs[0], scale, outputs[0]); };
    switch (in_) {
      case Element::kFloat:
      case Element::kHalf:
        return run(float());
      case Element::kBool:
      case Element::kU8:
        return run(uint8_t());
      case Element::kI8:
        return run(int8_t());
      case Element::kI16:
        return run(int16_t());
      case Element::kU16:
        return run(uint16_t());
      case Element::kI32:
        return run(int32_t());
      case Element::kU32:
        return run(uint32_t());
      case Element::kI64:
        return run(int64_t());
      case Element::kU64:
        return run(uint64_t());
    }
  }

 private:
  template <typename T>
  void Run(const void* in, double scale, void* out) {
    switch (parameters_.op) {
      case Operation::ADD:
        return RunOp<Add, T>(in, scale, out);
      case Operation::MUL:
        return RunOp<Mul, T>(in, scale, out);
      case Operation::MIN:
        return RunOp<Min, T>(in, scale, out);
      case Operation::MAX:
        return RunOp<Max, T>(in, scale, out);
      case Operation::LOGICAL_AND:
        return RunOp<And, T>(in, scale, out);
      case Operation::LOGICAL_OR:
        return RunOp<Or, T>(in, scale, out);
      case Operation::SQUARE_ADD:
        return RunOp<SquareAdd, T>(in, scale, out);
      case Operation::LOG_ADD:
        if constexpr (std::is_floating_point<T>::value) return RunOp<LogAdd, T>(in, scale, out);
    }
  }

  template <typename Op, typename T>
  void RunOp(const void* in, double scale, void* out) {
    std::vector<Wide<T>> results(count_, Op::template Identity<Wide<T>>());
    if (!empty_) results = Reduction<Op, T>(layout_, in_).Run(in, count_);
    if (parameters_.scale) {
      const bool logarithms = parameters_.op == Operation::LOG_ADD;
      for (auto& result : results) {
        result = static_cast<Wide<T>>(logarithms ? result + scale : result * scale);
      }
    }
    if constexpr (std::is_floating_point<T>::value) {
      StoreFloats<Op>(results, out);
    } else {
      T* elements = static_cast<T*>(out);
      for (size_t i = 0; i < count_; ++i) {
        if (parameters_.update)
          results[i] = Op::Combine(results[i], static_cast<Wide<T>>(elements[i]));
        elements[i] = static_cast<T>(results[i]);
      }
    }
  }

  template <typename Op>
  void StoreFloats(std::vector<double>& results, void* out) const {
    std::vector<float> floats(count_);
    uint16_t* halves = static_cast<uint16_t*>(out);
    if (parameters_.update) {
      if (out_ == Element::kHalf) {
        poplar::core::halvesToFloats(halves, floats.data(), count_);
      } else {
        std::copy_n(static_cast<const float*>(out), count_, floats.data());
      }
      for (size_t i = 0; i < count_; ++i) {
        results[i] = Op::Combine(results[i], static_cast<double>(floats[i]));
      }
    }
    for (size_t i = 0; i < count_; ++i) floats[i] = static_cast<float>(results[i]);
    if (out_ == Element::kHalf) {
      poplar::core::floatsToHalves(floats.data(), halves, count_);
    } else {
      std::copy_n(floats.data(), count_, static_cast<float*>(out));
    }
  }

  const Parameters parameters_;
  const Layout layout_;
  const Element in_, out_;
  Element scale_ = Element::kFloat;
  const size_t count_;
  const bool empty_;
};

const poplar::core::KernelRegistration kReduce("popops::reduce", [](const KernelSpec& spec) {
  return std::unique_ptr<poplar::core::Kernel>(new ReduceKernel(spec));
});

}  // namespace
}  // namespace popops
