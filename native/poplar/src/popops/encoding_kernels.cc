// Rows that are addressed by an index for each.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "poplar/core/LibraryOp.hpp"
#include "popops/elements.h"
#include "popops/ops.h"

namespace popops {
namespace {

using poplar::core::Kernel;
using poplar::core::KernelRegistration;
using poplar::core::KernelSpec;

using Run = std::function<void(const std::vector<const void*>&, const std::vector<void*>&)>;

// A kernel of one function.
class FunctionKernel : public Kernel {
 public:
  explicit FunctionKernel(Run run) : run_(std::move(run)) {}
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    run_(inputs, outputs);
  }

 private:
  Run run_;
};

std::unique_ptr<Kernel> Make(Run run) {
  return std::unique_ptr<Kernel>(new FunctionKernel(std::move(run)));
}

struct Rows {
  explicit Rows(const poplar::core::KernelTensor& tensor)
      : size(TensorSizeOf(ElementOf(tensor.type))),
        columns(tensor.shape.back()),
        count(columns == 0 ? 0 : CountOf(tensor.shape) / columns) {}

  size_t size, columns, count;
};

std::unique_ptr<Kernel> OneHot(const KernelSpec& spec) {
  const Rows rows(spec.outputs[0]);
  return Make([rows](const std::vector<const void*>& in, const std::vector<void*>& out) {
    const uint32_t* indices = static_cast<const uint32_t*>(in[0]);
    char* encoded = static_cast<char*>(out[0]);
    for (size_t r = 0; r < rows.count; ++r) {
      for (size_t c = 0; c < rows.columns; ++c) {
        std::memcpy(encoded, in[indices[r] == c ? 1 : 2], rows.size);
        encoded += rows.size;
      }
    }
  });
}

std::unique_ptr<Kernel> Iota(const KernelSpec& spec) {
  const Element element = ElementOf(spec.outputs[0].type);
  const size_t count = CountOf(spec.outputs[0].shape);
  const long long start = ParameterReader(spec.parameters).Next<long long>();
  return Make([=](const std::vector<const void*>&, const std::vector<void*>& out) {
    WithElement(element, [&](auto zero) {
      using T = decltype(zero);
      T* elements = static_cast<T*>(out[0]);
      for (size_t i = 0; i < count; ++i) {
        elements[i] = static_cast<T>(start + static_cast<long long>(i));
      }
    });
  });
}

std::unique_ptr<Kernel> SelectScalars(const KernelSpec& spec) {
  const Rows rows(spec.inputs[0]);
  return Make([rows](const std::vector<const void*>& in, const std::vector<void*>& out) {
    const uint32_t* indices = static_cast<const uint32_t*>(in[1]);
    for (size_t r = 0; r < rows.count; ++r) {
      char* to = static_cast<char*>(out[0]) + r * rows.size;
      const char* row = static_cast<const char*>(in[0]) + r * rows.columns * rows.size;
      if (indices[r] < rows.columns) {
        std::memcpy(to, row + indices[r] * rows.size, rows.size);
      } else {
        std::memset(to, 0, rows.size);
      }
    }
  });
}

std::unique_ptr<Kernel> UpdateScalars(const KernelSpec& spec) {
  const Rows rows(spec.inputs[0]);
  const Element element = ElementOf(spec.inputs[0].type);
  return Make([=](const std::vector<const void*>& in, const std::vector<void*>& out) {
    const uint32_t* indices = static_cast<const uint32_t*>(in[1]);
    WithElement(element, [&](auto zero) {
      using T = decltype(zero);
      for (size_t r = 0; r < rows.count; ++r) {
        if (indices[r] >= rows.columns) continue;
        T& scalar = static_cast<T*>(out[0])[r * rows.columns + indices[r]];
        scalar = static_cast<T>(scalar - 1);
      }
    });
  });
}

const KernelRegistration kOneHot("popops::encodeOneHot", OneHot);
const KernelRegistration kIota("popops::iota", Iota);
const KernelRegistration kSelect("popops::selectScalarFromRows", SelectScalars);
const KernelRegistration kUpdate("popops::updateScalarInRows", UpdateScalars);

}  // namespace
}  // namespace popops
