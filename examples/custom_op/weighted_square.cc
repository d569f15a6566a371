// An operation of the program, for ipu.custom_ops.precompiled_user_op: weight * x^2, of float32.
#include <cstddef>

#include "tensorflow_ipu/custom_op.h"

namespace {

const float* Values(const tensorflow_ipu_tensor& tensor) {
  return static_cast<const float*>(tensor.data);
}

const char* Check(const tensorflow_ipu_call* call) {
  if (call->num_inputs != 2) return "expected the inputs x and weight";
  for (int i = 0; i < 2; ++i) {
    if (call->inputs[i].type != TENSORFLOW_IPU_FLOAT) return "expected inputs of float32";
  }
  if (call->inputs[0].num_elements != call->inputs[1].num_elements) {
    return "expected x and weight of one size";
  }
  return NULL;
}

}  // namespace

extern "C" {

int32_t custom_op_api_level = TENSORFLOW_IPU_API_LEVEL;

const char* WeightedSquare(const tensorflow_ipu_call* call) {
  const char* error = Check(call);
  if (error != NULL) return error;
  const float* x = Values(call->inputs[0]);
  const float* weight = Values(call->inputs[1]);
  float* y = static_cast<float*>(call->outputs[0].data);
  for (int64_t i = 0; i < call->inputs[0].num_elements; ++i) y[i] = weight[i] * x[i] * x[i];
  return NULL;
}

void WeightedSquare_metadata(tensorflow_ipu_metadata* metadata) {
  metadata->is_elementwise = 1;
  metadata->is_stateless = 1;
  metadata->is_hashable = 1;
}

// The derivatives 2 * weight * x and x^2, each times the gradient of the result.
const char* WeightedSquare_grad(const tensorflow_ipu_call* call) {
  const float* gradient = Values(call->gradients[0]);
  const float* x = Values(call->inputs[0]);
  const float* weight = Values(call->inputs[1]);
  float* by_x = static_cast<float*>(call->outputs[0].data);
  float* by_weight = static_cast<float*>(call->outputs[1].data);
  for (int64_t i = 0; i < call->inputs[0].num_elements; ++i) {
    by_x[i] = gradient[i] * 2 * weight[i] * x[i];
    by_weight[i] = gradient[i] * x[i] * x[i];
  }
  return NULL;
}

void WeightedSquare_grad_metadata(tensorflow_ipu_metadata* metadata) {
  metadata->is_stateless = 1;
  metadata->is_hashable = 1;
}

}  // extern "C"
