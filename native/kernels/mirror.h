// TensorFlow's CPU kernels, offered on the IPU device.
#ifndef TENSORFLOW_IPU_KERNELS_MIRROR_H_
#define TENSORFLOW_IPU_KERNELS_MIRROR_H_

#include "tensorflow/core/framework/types.h"

namespace tensorflow_ipu {

// Registers, for every CPU kernel that the IPU has an equivalent of, one on the IPU device that
// forwards to it. Ops and types that the IPU lacks (see support.h) get none, so TensorFlow's own
// placer refuses them.
void RegisterMirroredKernels();

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_MIRROR_H_
