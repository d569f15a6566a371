// A base for host ops that may block.
#ifndef TENSORFLOW_IPU_KERNELS_BACKGROUND_KERNEL_H_
#define TENSORFLOW_IPU_KERNELS_BACKGROUND_KERNEL_H_

#include <utility>

#include "absl/synchronization/notification.h"
#include "engine/interpreter.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

// Runs on a thread of its own, so that the few threads TensorFlow has for ops stay free: one of
// them may be needed for what this op waits for.
class BackgroundOpKernel : public tensorflow::AsyncOpKernel {
 public:
  using tensorflow::AsyncOpKernel::AsyncOpKernel;

  // Called by a thread that waits: one of Python, in eager mode.
  void Compute(tensorflow::OpKernelContext* ctx) override {
    tensorflow::CancellationManager cancellation;
    absl::Notification done;
    RunInBackground(ctx, &cancellation, [&done] { done.Notify(); });
    if (WaitInPython(&done, [&cancellation] { cancellation.StartCancel(); })) {
      ctx->SetStatus(tensorflow::errors::Cancelled("Interrupted by a signal."));
    }
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    RunInBackground(ctx, ctx->cancellation_manager(), std::move(done));
  }

 protected:
  // Does the work. May be cancelled, if `cancellation` is not null.
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx,
                                 tensorflow::CancellationManager* cancellation) = 0;
  // Whether Run would have to wait. If not, it runs on the calling thread.
  virtual bool Waits() { return true; }

 private:
  void RunInBackground(tensorflow::OpKernelContext* ctx,
                       tensorflow::CancellationManager* cancellation, DoneCallback done) {
    const auto run = [this, ctx, cancellation, done = std::move(done)] {
      ctx->SetStatus(Run(ctx, cancellation));
      done();
    };
    if (Waits()) {
      ctx->env()->SchedClosure(run);
    } else {
      run();
    }
  }
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_BACKGROUND_KERNEL_H_
