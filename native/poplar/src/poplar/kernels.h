// Functions of the libraries that run as one step: a product of matrices, say.
#ifndef TENSORFLOW_IPU_POPLAR_KERNELS_H_
#define TENSORFLOW_IPU_POPLAR_KERNELS_H_

#include <functional>
#include <string>
#include <vector>

#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"

namespace poplar::core {

// A tensor whose elements are one after the other in memory, in row-major order.
struct KernelTensor {
  Type type;
  const std::vector<size_t>* shape;
  void* data;
  size_t count;

  template <typename T>
  T* As() const {
    return static_cast<T*>(data);
  }
};

struct KernelArguments {
  const std::string& attributes;
  const std::vector<KernelTensor>& inputs;
  const std::vector<KernelTensor>& outputs;
};

using Kernel = std::function<void(const KernelArguments&)>;

// Makes a kernel known by name; executables refer to it so.
struct RegisterKernel {
  RegisterKernel(const char* name, Kernel kernel);
};

// The kernel of a name. Throws poplar_error if its library is not loaded.
const Kernel& FindKernel(const std::string& name);

// A step that calls a kernel. Outputs have to be parallel writeable and different from inputs,
// unless the kernel may work in place.
program::Program CallKernel(const char* name, std::vector<Tensor> inputs,
                            std::vector<Tensor> outputs, std::string attributes,
                            const DebugContext& context);

// Calls `work(begin, end)` for parts of [0, count) on all cores, and waits. Parts are of `grain` at
// least.
void ParallelFor(size_t count, size_t grain, const std::function<void(size_t, size_t)>& work);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_KERNELS_H_
