// A base for the kernels of collectives.
#ifndef TENSORFLOW_IPU_KERNELS_COLLECTIVE_KERNEL_H_
#define TENSORFLOW_IPU_KERNELS_COLLECTIVE_KERNEL_H_

#include <utility>
#include <vector>

#include "engine/collective_rendezvous.h"
#include "engine/launch_context.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

// Meets the other replicas of the launch. A derived class says how large groups are and does the
// work of a whole group. Outside a launch there is one replica.
class CollectiveKernel : public tensorflow::AsyncOpKernel, public Collective {
 public:
  using tensorflow::AsyncOpKernel::AsyncOpKernel;

  // Cheap to start: what is expensive is done by the last to come only.
  bool IsExpensive() override { return false; }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    LaunchContext* launch = LaunchContext::From(ctx);
    int size;
    OP_REQUIRES_OK_ASYNC(ctx, GroupSize(launch, &size), done);
    if (size == 1) {
      ctx->SetStatus(RunAlone(ctx));
      return done();
    }
    launch->rendezvous().Meet(*this, launch->replica(), size, ctx, std::move(done));
  }

  // Sets `size` to the number of replicas that do the collective together.
  tensorflow::Status GroupSize(const LaunchContext* launch, int* size) const {
    const int replicas = launch == nullptr ? 1 : launch->total_replicas();
    *size = group_size_ == 0 ? replicas : group_size_;
    if (replicas % *size == 0) return tensorflow::OkStatus();
    // The compiler has checked this; not so when the op runs outside a program.
    return tensorflow::errors::InvalidArgument(
        "Groups of ", *size, " replicas need a multiple of that many replicas, but ", name(), " (",
        type_string(), ") runs on ", replicas, ". Change the group size or the number of IPUs.");
  }

 protected:
  // Replicas that do the collective together, 0 for all.
  int group_size_ = 0;

 private:
  tensorflow::Status RunAlone(tensorflow::OpKernelContext* ctx) const {
    std::vector<tensorflow::Tensor> inputs;
    TF_RETURN_IF_ERROR(Give(ctx, &inputs));
    return Run(inputs, /*first=*/0, {&ctx, 1});
  }
};

// Gives a replica's part of the collective whose kernel is `Kernel`, and goes on. The output says
// where IpuCollectiveFinish takes the result. Made by engine/split_collectives.h, so there is a
// launch with several replicas.
template <typename Kernel>
class CollectiveStartKernel : public tensorflow::OpKernel {
 public:
  explicit CollectiveStartKernel(tensorflow::OpKernelConstruction* ctx)
      : OpKernel(ctx), collective_(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("takes", &takes_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    LaunchContext* launch = LaunchContext::From(ctx);
    int size;
    OP_REQUIRES_OK(ctx, collective_.GroupSize(launch, &size));
    CollectiveRendezvous::Meeting meeting;
    OP_REQUIRES_OK(ctx, launch->rendezvous().Give(collective_, launch->replica(), size, takes_,
                                                  PartOf(ctx), ctx, &meeting));
    tensorflow::Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({2}), &output));
    output->vec<int64_t>()(0) = meeting.index;
    output->vec<int64_t>()(1) = meeting.first;
  }

 protected:
  // Takes what the replica gives out of the inputs.
  virtual Part PartOf(tensorflow::OpKernelContext* ctx) const { return Part::InputOf(ctx); }

 private:
  const Kernel collective_;
  bool takes_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_COLLECTIVE_KERNEL_H_
