// A base for host ops that may block.
#ifndef TENSORFLOW_IPU_KERNELS_BACKGROUND_KERNEL_H_
#define TENSORFLOW_IPU_KERNELS_BACKGROUND_KERNEL_H_

#include <utility>

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow_ipu {

// Runs on a thread of its own, so that the few threads TensorFlow has for ops stay free: one of
// them may be needed for what this op waits for.
class BackgroundOpKernel : public tensorflow::AsyncOpKernel {
 public:
  using tensorflow::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    ctx->env()->SchedClosure([this, ctx, done = std::move(done)] {
      ctx->SetStatus(Run(ctx));
      done();
    });
  }

 protected:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx) = 0;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_BACKGROUND_KERNEL_H_
