// How the device prints tensors.
#ifndef TENSORFLOW_IPU_KERNELS_PRINT_FORMAT_H_
#define TENSORFLOW_IPU_KERNELS_PRINT_FORMAT_H_

#include <string>

#include "tensorflow/core/framework/tensor.h"

namespace tensorflow_ipu {

// Returns the elements of a tensor as text: in brackets, columns aligned, real numbers with 8
// digits in fixed notation, or in scientific notation where that would lose or pad digits. Of more
// than 1000 elements, three at each edge are shown. Lines longer than 75 characters are split.
std::string FormatTensor(const tensorflow::Tensor& tensor);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_PRINT_FORMAT_H_
