// Which ops and types the IPU lacks.
#ifndef TENSORFLOW_IPU_KERNELS_SUPPORT_H_
#define TENSORFLOW_IPU_KERNELS_SUPPORT_H_

#include <string>

#include "tensorflow/core/framework/types.h"

namespace tensorflow_ipu {

// Whether ops of this type can never be on the IPU.
bool IsUnsupportedOp(const std::string& type);

// Whether tensors of this type can never be on the IPU: float64 and complex numbers.
bool IsUnsupportedType(tensorflow::DataType type);

// Whether an op of ours belongs to the host: it starts programs, or does what feeds and tables
// need. All others are for programs only.
bool IsOwnHostOp(const std::string& type);

// Whether ops of this type only check values. The IPU drops them.
bool IsDroppedCheck(const std::string& type);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_SUPPORT_H_
