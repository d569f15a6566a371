// Histograms, runs of rows, and splines.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "popops/elements.h"
#include "popops/ops.h"

namespace popops {
namespace {

using poplar::core::Kernel;
using poplar::core::KernelRegistration;
using poplar::core::KernelSpec;

// Writes a number as an element.
void Store(double value, Element element, void* data, size_t index) {
  WithElement(element, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(data)[index] = static_cast<T>(value);
  });
}

class Histogram : public Kernel {
 public:
  explicit Histogram(const KernelSpec& spec)
      : in_(ElementOf(spec.inputs[0].type)),
        out_(ElementOf(spec.outputs[0].type)),
        count_(CountOf(spec.inputs[0].shape)),
        levels_(CountOf(spec.inputs[1].shape)) {
    ParameterReader reader(spec.parameters);
    update_ = reader.Next<bool>();
    absolute_ = reader.Next<bool>();
  }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    std::vector<double> levels(levels_);
    for (size_t i = 0; i < levels_; ++i) levels[i] = NumberAt(inputs[1], in_, i);
    std::vector<size_t> counts(levels_ + 1, 0);
    for (size_t i = 0; i < count_; ++i) {
      const double x = NumberAt(inputs[0], in_, i);
      const auto above =
          std::upper_bound(levels.begin(), levels.end(), absolute_ ? std::abs(x) : x);
      ++counts[above - levels.begin()];
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      const double before = update_ ? NumberAt(outputs[0], out_, i) : 0;
      Store(before + static_cast<double>(counts[i]), out_, outputs[0], i);
    }
  }

 private:
  const Element in_, out_;
  const size_t count_, levels_;
  bool update_, absolute_;
};

class SequenceSlice : public Kernel {
 public:
  explicit SequenceSlice(const KernelSpec& spec)
      : in_rows_(spec.inputs[0].shape[0]),
        out_rows_(spec.outputs[0].shape[0]),
        slices_(CountOf(spec.inputs[1].shape)),
        zeros_(ParameterReader(spec.parameters).Next<bool>()) {
    row_ = TensorSizeOf(ElementOf(spec.inputs[0].type));
    for (size_t d = 1; d < spec.inputs[0].shape.size(); ++d) row_ *= spec.inputs[0].shape[d];
  }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    const char* in = static_cast<const char*>(inputs[0]);
    char* out = static_cast<char*>(outputs[0]);
    if (zeros_) std::memset(out, 0, out_rows_ * row_);
    for (size_t s = 0; s < slices_; ++s) {
      const size_t count = static_cast<const uint32_t*>(inputs[1])[s];
      const size_t from = static_cast<const uint32_t*>(inputs[2])[s];
      const size_t to = static_cast<const uint32_t*>(inputs[3])[s];
      for (size_t i = 0; i < count && from + i < in_rows_ && to + i < out_rows_; ++i) {
        std::memcpy(out + (to + i) * row_, in + (from + i) * row_, row_);
      }
    }
  }

 private:
  const size_t in_rows_, out_rows_, slices_;
  const bool zeros_;
  size_t row_;
};

// The value of basis function k of a degree at a place within its interval.
double Basis(double v, unsigned k, unsigned degree) {
  switch (degree) {
    case 1:
      return k == 0 ? 1 - v : v;
    case 2:
      return k == 0 ? 0.5 * v * v - v + 0.5 : k == 1 ? -v * v + v + 0.5 : 0.5 * v * v;
    default:
      return k == 0   ? (1 - v) * (1 - v) * (1 - v) / 6
             : k == 1 ? (3 * v * v * v - 6 * v * v + 4) / 6
             : k == 2 ? (-3 * v * v * v + 3 * v * v + 3 * v + 1) / 6
                      : v * v * v / 6;
  }
}

class SplineBasis : public Kernel {
 public:
  explicit SplineBasis(const KernelSpec& spec)
      : element_(ElementOf(spec.inputs[0].type)),
        size_(ElementOf(spec.inputs[1].type)),
        open_(ElementOf(spec.inputs[2].type)),
        index_(ElementOf(spec.outputs[1].type)),
        edges_(spec.inputs[0].shape[0]),
        dims_(spec.inputs[0].shape[1]),
        products_(spec.outputs[0].shape[1]),
        degree_(ParameterReader(spec.parameters).Next<unsigned>()) {}

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    for (size_t e = 0; e < edges_; ++e) {
      for (size_t s = 0; s < products_; ++s) {
        size_t digits = s;
        double basis = 1;
        int64_t index = 0, stride = 1;
        for (size_t d = 0; d < dims_; ++d) {
          const unsigned k = static_cast<unsigned>(digits % (degree_ + 1));
          digits /= degree_ + 1;
          const int64_t size = static_cast<int64_t>(NumberAt(inputs[1], size_, d));
          const bool open = NumberAt(inputs[2], open_, d) != 0;
          const double v = NumberAt(inputs[0], element_, e * dims_ + d) *
                           static_cast<double>(size - (open ? degree_ : 0));
          const double floor = std::floor(v);
          index += (static_cast<int64_t>(floor) + k) % size * stride;
          stride *= size;
          basis *= Basis(v - floor, k, degree_);
        }
        Store(basis, element_, outputs[0], e * products_ + s);
        Store(static_cast<double>(index), index_, outputs[1], e * products_ + s);
      }
    }
  }

 private:
  const Element element_, size_, open_, index_;
  const size_t edges_, dims_, products_;
  const unsigned degree_;
};

class SplineWeighting : public Kernel {
 public:
  explicit SplineWeighting(const KernelSpec& spec)
      : element_(ElementOf(spec.inputs[0].type)),
        weight_(ElementOf(spec.inputs[1].type)),
        basis_(ElementOf(spec.inputs[2].type)),
        index_(ElementOf(spec.inputs[3].type)),
        edges_(spec.inputs[0].shape[0]),
        in_(spec.inputs[0].shape[1]),
        kernels_(spec.inputs[1].shape[0]),
        out_(spec.inputs[1].shape[2]),
        products_(spec.inputs[2].shape[1]) {}

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    std::vector<double> sums(out_);
    for (size_t e = 0; e < edges_; ++e) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (size_t s = 0; s < products_; ++s) {
        const double basis = NumberAt(inputs[2], basis_, e * products_ + s);
        const size_t kernel = static_cast<size_t>(NumberAt(inputs[3], index_, e * products_ + s));
        if (kernel >= kernels_) continue;
        for (size_t i = 0; i < in_; ++i) {
          const double x = basis * NumberAt(inputs[0], element_, e * in_ + i);
          for (size_t o = 0; o < out_; ++o) {
            sums[o] += x * NumberAt(inputs[1], weight_, (kernel * in_ + i) * out_ + o);
          }
        }
      }
      for (size_t o = 0; o < out_; ++o) Store(sums[o], element_, outputs[0], e * out_ + o);
    }
  }

 private:
  const Element element_, weight_, basis_, index_;
  const size_t edges_, in_, kernels_, out_, products_;
};

template <typename K>
std::unique_ptr<Kernel> Make(const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new K(spec));
}

const KernelRegistration kHistogram("popops::histogram", Make<Histogram>);
const KernelRegistration kSequenceSlice("popops::sequenceSlice", Make<SequenceSlice>);
const KernelRegistration kSplineBasis("popops::splineBasis", Make<SplineBasis>);
const KernelRegistration kSplineWeighting("popops::splineWeighting", Make<SplineWeighting>);

}  // namespace
}  // namespace popops
