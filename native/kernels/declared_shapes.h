// The shape function of ops whose attribute `output_shapes` says what they give.
#ifndef TENSORFLOW_IPU_KERNELS_DECLARED_SHAPES_H_
#define TENSORFLOW_IPU_KERNELS_DECLARED_SHAPES_H_

#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {

tensorflow::Status DeclaredShapes(tensorflow::shape_inference::InferenceContext* c);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_DECLARED_SHAPES_H_
