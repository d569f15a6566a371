// The second half of collectives that are split (engine/split_collectives.h).
#include "kernels/split_collective_ops.h"

#include <utility>

#include "engine/launch_context.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow_ipu {

using tensorflow::OpKernelContext;

tensorflow::Status MeetingShape(tensorflow::shape_inference::InferenceContext* c) {
  c->set_output(0, c->Vector(2));
  return tensorflow::OkStatus();
}

namespace {

// Waits until all members of the group have given their parts.
class CollectiveFinishOp : public tensorflow::AsyncOpKernel {
 public:
  using tensorflow::AsyncOpKernel::AsyncOpKernel;

  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    LaunchContext* launch = LaunchContext::From(ctx);
    const auto meeting = ctx->input(0).vec<int64_t>();
    launch->rendezvous().Take({meeting(0), meeting(1)}, launch->replica(), ctx, std::move(done));
  }
};

}  // namespace

REGISTER_OP("IpuCollectiveFinish")
    .Input("meeting: int64")
    .Output("output: T")
    .Attr("T: type")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("The result of a collective to which the replica has given its part.");

REGISTER_KERNEL_BUILDER(Name("IpuCollectiveFinish").Device(tensorflow::DEVICE_CPU),
                        CollectiveFinishOp);

}  // namespace tensorflow_ipu
