// Evaluation of ops on types and shapes only, in a process that plans programs without running
// them.
#ifndef TENSORFLOW_IPU_PLUGIN_ABSTRACT_COMPUTE_H_
#define TENSORFLOW_IPU_PLUGIN_ABSTRACT_COMPUTE_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow_ipu {

// Evaluates an op without its kernel, if it has an abstract input, or makes a large tensor of next
// to nothing (an initializer). Returns false if the kernel has to run.
bool ComputeAbstractly(tensorflow::OpKernel* kernel, tensorflow::OpKernelContext* ctx);

// Makes TensorFlow use a CPU device that evaluates ops so.
void RegisterAbstractCpu();

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_PLUGIN_ABSTRACT_COMPUTE_H_
