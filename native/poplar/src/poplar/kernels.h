// The kernels of the libraries that are in this process.
#ifndef TENSORFLOW_IPU_POPLAR_KERNELS_H_
#define TENSORFLOW_IPU_POPLAR_KERNELS_H_

#include <memory>

#include "poplar/core/LibraryOp.hpp"

namespace poplar::core {

// Throws link_error for a kernel whose library is not loaded.
std::unique_ptr<Kernel> MakeKernel(const KernelSpec& spec);
std::unique_ptr<CollectiveKernel> MakeCollective(const KernelSpec& spec);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_KERNELS_H_
