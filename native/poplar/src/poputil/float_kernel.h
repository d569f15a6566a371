// Kernels that compute in float, of operands that are float or half.
#ifndef TENSORFLOW_IPU_POPUTIL_FLOAT_KERNEL_H_
#define TENSORFLOW_IPU_POPUTIL_FLOAT_KERNEL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "poputil/attributes.h"

namespace poputil {

// One run of a kernel. Operands of half are float here; integers are as they are.
struct KernelCall {
  const poplar::core::KernelSpec& spec;
  const Attributes& attributes;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;

  const float* in(size_t index) const { return static_cast<const float*>(inputs[index]); }
  float* out(size_t index) const { return static_cast<float*>(outputs[index]); }
  template <typename T>
  const T* InAs(size_t index) const {
    return static_cast<const T*>(inputs[index]);
  }
  template <typename T>
  T* OutAs(size_t index) const {
    return static_cast<T*>(outputs[index]);
  }
  const std::vector<size_t>& InShape(size_t index) const { return spec.inputs[index].shape; }
  const std::vector<size_t>& OutShape(size_t index) const { return spec.outputs[index].shape; }
  size_t InSize(size_t index) const { return Product(InShape(index)); }
  size_t OutSize(size_t index) const { return Product(OutShape(index)); }

  static size_t Product(const std::vector<size_t>& shape) {
    size_t product = 1;
    for (const size_t size : shape) product *= size;
    return product;
  }
};

using FloatFunction = void (*)(const KernelCall& call);

// Makes a function the kernel of an op: results of half are computed in float and rounded once.
struct FloatKernelRegistration {
  FloatKernelRegistration(const std::string& name, FloatFunction function);
};

}  // namespace poputil

#endif  // TENSORFLOW_IPU_POPUTIL_FLOAT_KERNEL_H_
