// Operations for precompiled_user_op.
#include <cstdint>
#include <cstring>
#include <string>

#include "tensorflow_ipu/custom_op.h"

#ifndef LEVEL
#define LEVEL TENSORFLOW_IPU_API_LEVEL
#endif

namespace {

using Call = const tensorflow_ipu_call*;

float* Values(const tensorflow_ipu_tensor& tensor) { return static_cast<float*>(tensor.data); }

void Product(const tensorflow_ipu_tensor& a, const tensorflow_ipu_tensor& b, float factor,
             const tensorflow_ipu_tensor& c) {
  for (int64_t i = 0; i < c.num_elements; ++i) {
    Values(c)[i] = factor * Values(a)[i] * Values(b)[i];
  }
}

}  // namespace

extern "C" {

#ifndef NO_LEVEL
int32_t custom_op_api_level = LEVEL;
#endif

// z = x * y.
const char* Build(Call call) {
  Product(call->inputs[0], call->inputs[1], 1, call->outputs[0]);
  return NULL;
}

// Derivatives for all inputs or for one; times a factor from the attributes.
const char* Build_grad(Call call) {
  const float factor = *call->attributes == 0 ? 1 : std::stof(call->attributes);
  if (call->num_gradients != 1) return "expected one gradient";
  for (int i = 0; i < call->num_outputs; ++i) {
    const int input = call->input_grad_index < 0 ? i : call->input_grad_index;
    Product(call->gradients[0], call->inputs[1 - input], factor, call->outputs[i]);
  }
  return NULL;
}

// z = 2 x. The gradient uses the result: dx = dz * z / x.
const char* Double(Call call) {
  for (int64_t i = 0; i < call->inputs[0].num_elements; ++i) {
    Values(call->outputs[0])[i] = 2 * Values(call->inputs[0])[i];
  }
  return NULL;
}

const char* Double_grad(Call call) {
  for (int64_t i = 0; i < call->inputs[0].num_elements; ++i) {
    Values(call->outputs[0])[i] = Values(call->gradients[0])[i] *
                                  Values(call->forward_outputs[0])[i] / Values(call->inputs[0])[i];
  }
  return NULL;
}

// Adds one in place.
const char* InPlace(Call call) {
  if (call->inputs[0].data != call->outputs[0].data) return "memory is not shared";
  for (int64_t i = 0; i < call->outputs[0].num_elements; ++i) Values(call->outputs[0])[i] += 1;
  return NULL;
}

void InPlace_metadata(tensorflow_ipu_metadata* metadata) { metadata->aliased_output[0] = 0; }

// int32[2]: replica and how many there are.
const char* Replica(Call call) {
  for (int i = 0; i < call->num_outputs; ++i) {
    int32_t* values = static_cast<int32_t*>(call->outputs[i].data);
    values[0] = call->replica;
    values[1] = call->num_replicas;
  }
  return NULL;
}

// Two outputs: the input and 1.
const char* Mixed(Call call) {
  Values(call->outputs[0])[0] = Values(call->inputs[0])[0];
  Values(call->outputs[1])[0] = 1;
  return NULL;
}

void Mixed_metadata(tensorflow_ipu_metadata* metadata) { metadata->replica_identical[1] = 1; }

// int64[8]: type, rank, dimensions, number of elements of the input, then -1.
const char* Shape(Call call) {
  int64_t* values = static_cast<int64_t*>(call->outputs[0].data);
  const tensorflow_ipu_tensor& input = call->inputs[0];
  *values++ = input.type;
  *values++ = input.rank;
  for (int i = 0; i < input.rank; ++i) *values++ = input.shape[i];
  *values++ = input.num_elements;
  *values++ = -1;
  return NULL;
}

const char* Fail(Call call) { return call->attributes; }

const char* Hashable(Call call) { return Double(call); }

void Hashable_metadata(tensorflow_ipu_metadata* metadata) {
  metadata->is_elementwise = 1;
  metadata->is_stateless = 1;
  metadata->is_hashable = 1;
}

const char* Allocates(Call call) { return Double(call); }

void Allocates_metadata(tensorflow_ipu_metadata* metadata) { metadata->allocates[0] = 1; }

void Allocates_allocator(void) {}

const char* NoAllocator(Call call) { return Double(call); }

void NoAllocator_metadata(tensorflow_ipu_metadata* metadata) { metadata->allocates[0] = 1; }

const char* BadAlias(Call call) { return Double(call); }

void BadAlias_metadata(tensorflow_ipu_metadata* metadata) { metadata->aliased_output[0] = 1; }

const char* TwoAliases(Call call) { return Double(call); }

void TwoAliases_metadata(tensorflow_ipu_metadata* metadata) {
  for (int i = 0; i < metadata->num_inputs; ++i) metadata->aliased_output[i] = 0;
}

const char* Forward(Call call) { return Double(call); }

}  // extern "C"
