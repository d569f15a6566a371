// Stacking tensors of one shape.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_STACK_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_STACK_H_

#include <cstdint>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Copies `part` to place `index` of `whole`, which is seen as a sequence of tensors of the size of
// `part`. Both have the same type.
tensorflow::Status CopyToPlace(const tensorflow::Tensor& part, int64_t index,
                               tensorflow::Tensor* whole);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_STACK_H_
