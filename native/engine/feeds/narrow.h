// 64-bit integers as the device holds them.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_NARROW_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_NARROW_H_

#include "tensorflow/core/framework/tensor.h"

namespace tensorflow_ipu {

// The device has 32-bit integers only: an int64 value loses its upper half on the way in and is
// sign-extended on the way out. Gives `tensor` the values that are left; other types are not
// touched. A buffer that others see is replaced, not changed.
void NarrowToDevice(tensorflow::Tensor* tensor);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_NARROW_H_
