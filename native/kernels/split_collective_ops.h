// Shape function of the first half of collectives that are split.
#ifndef TENSORFLOW_IPU_KERNELS_SPLIT_COLLECTIVE_OPS_H_
#define TENSORFLOW_IPU_KERNELS_SPLIT_COLLECTIVE_OPS_H_

#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Shape of the output `meeting`.
tensorflow::Status MeetingShape(tensorflow::shape_inference::InferenceContext* c);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_SPLIT_COLLECTIVE_OPS_H_
