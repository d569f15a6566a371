// What a library of precompiled operations is made of: it is called by
// ipu.custom_ops.precompiled_user_op. Plain C, so any compiler will do, for C or C++.
//
// A library with an operation `Build` exports
//
//   custom_op_api_level   an int32_t, TENSORFLOW_IPU_API_LEVEL
//   Build                 computes the outputs                         (tensorflow_ipu_function)
//   Build_grad            computes partial derivatives; for training   (tensorflow_ipu_function)
//   Build_metadata        says more about it; optional                 (tensorflow_ipu_describe)
//   Build_grad_metadata   the same of Build_grad; optional
//   Build_allocator       says where inputs are in the memory of the chip. It has to be there if
//                         the metadata names inputs that it allocates. It is not called: the
//                         simulator keeps tensors in the memory of the host.
//
// where `Build` is what the program passes as `op_name`. For example, in C++:
//
//   #include "tensorflow_ipu/custom_op.h"
//
//   extern "C" {
//
//   int32_t custom_op_api_level = TENSORFLOW_IPU_API_LEVEL;
//
//   const char* Build(const tensorflow_ipu_call* call) {
//     if (call->inputs[0].type != TENSORFLOW_IPU_FLOAT) return "Square takes float32.";
//     const float* x = static_cast<const float*>(call->inputs[0].data);
//     float* y = static_cast<float*>(call->outputs[0].data);
//     for (int64_t i = 0; i < call->inputs[0].num_elements; ++i) y[i] = x[i] * x[i];
//     return NULL;
//   }
//
//   }
//
// and to compile it:  g++ -O2 -shared -fPIC -I INCLUDE_DIR square.cc -o libsquare.so
// with what `python -c "from tensorflow_ipu import custom_ops as c; print(c.include_dir())"`
// prints.
#ifndef TENSORFLOW_IPU_CUSTOM_OP_H_
#define TENSORFLOW_IPU_CUSTOM_OP_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface. Libraries of other levels are refused.
#define TENSORFLOW_IPU_API_LEVEL 5

// Types of elements, numbered as in TensorFlow.
enum tensorflow_ipu_type {
  TENSORFLOW_IPU_FLOAT = 1,
  TENSORFLOW_IPU_INT32 = 3,
  TENSORFLOW_IPU_UINT8 = 4,
  TENSORFLOW_IPU_INT16 = 5,
  TENSORFLOW_IPU_INT8 = 6,
  TENSORFLOW_IPU_INT64 = 9,
  TENSORFLOW_IPU_BOOL = 10,
  TENSORFLOW_IPU_BFLOAT16 = 14,
  TENSORFLOW_IPU_UINT16 = 17,
  TENSORFLOW_IPU_HALF = 19,
  TENSORFLOW_IPU_UINT32 = 22,
  TENSORFLOW_IPU_UINT64 = 23
};

// A tensor in row-major order. Only the data of outputs may be written, and that of inputs which
// share their memory with an output.
typedef struct tensorflow_ipu_tensor {
  int32_t type;  // enum tensorflow_ipu_type
  int32_t rank;
  const int64_t* shape;  // `rank` numbers
  int64_t num_elements;
  void* data;
} tensorflow_ipu_tensor;

// One execution of an operation, or of its gradient. Nothing of it may be kept.
typedef struct tensorflow_ipu_call {
  // The inputs of the operation, also in its gradient.
  int32_t num_inputs;
  const tensorflow_ipu_tensor* inputs;
  // To be filled in. In the gradient: partial derivatives, of the inputs' shapes.
  int32_t num_outputs;
  const tensorflow_ipu_tensor* outputs;
  // Gradient only: the gradient of each result of the operation, and these results.
  int32_t num_gradients;
  const tensorflow_ipu_tensor* gradients;
  const tensorflow_ipu_tensor* forward_outputs;
  // Gradient with separate_gradients only: the input whose derivative is asked for. -1 elsewhere:
  // then the outputs are for all inputs, or for inputs_with_gradients in their order.
  int32_t input_grad_index;
  // The argument `attributes` (in the gradient, `gradient_attributes`); "" without one.
  const char* attributes;
  // The name of the operation in the program.
  const char* debug_prefix;
  // Which of how many replicas this is.
  int32_t replica;
  int32_t num_replicas;
} tensorflow_ipu_call;

// Computes. Returns NULL, or what went wrong, which ends the program with this text; it is copied
// at once. Replicas call at the same time, from different threads.
typedef const char* tensorflow_ipu_function(const tensorflow_ipu_call* call);

// What an operation says about itself. The caller sets all of it to what is true of operations
// that say nothing; change what is different. Inputs of a gradient are numbered in the order
// gradients, results, inputs of the operation.
typedef struct tensorflow_ipu_metadata {
  int32_t num_inputs;   // given
  int32_t num_outputs;  // given
  // For each input: whether <op_name>_allocator says where it is in memory. 0.
  uint8_t* allocates;
  // For each input: the output that shares its memory, or -1. Types and shapes have to be equal.
  // The output then starts with the value of the input. -1.
  int32_t* aliased_output;
  // For each output: whether replicas have the same value, even if inputs differ. 0.
  uint8_t* replica_identical;
  // Whether each output has the shape of the first input, element by element. 0.
  int32_t is_elementwise;
  // Whether results depend on the inputs only. 0.
  int32_t is_stateless;
  // Whether the file and `attributes` say all of what it does, so that programs can be compiled
  // for later (DeviceConnectionType.PRE_COMPILE). 0.
  int32_t is_hashable;
} tensorflow_ipu_metadata;

typedef void tensorflow_ipu_describe(tensorflow_ipu_metadata* metadata);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TENSORFLOW_IPU_CUSTOM_OP_H_
