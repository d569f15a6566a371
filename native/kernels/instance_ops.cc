// How a process joins the others that run its program.
#include "engine/instances.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

// Runs once, on the CPU of the eager context: only ops know the collective executor.
class JoinInstancesOp : public tensorflow::OpKernel {
 public:
  explicit JoinInstancesOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("count", &count_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("index", &index_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    auto* cpu = static_cast<tensorflow::Device*>(ctx->device());
    OP_REQUIRES_OK(ctx, Instances::Join(count_, index_, ctx->collective_executor(), cpu));
  }

 private:
  int count_, index_;
};

}  // namespace

REGISTER_OP("IpuJoinInstances")
    .Attr("count: int >= 1")
    .Attr("index: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Lets programs of this process meet those of the other instances.");

REGISTER_KERNEL_BUILDER(Name("IpuJoinInstances").Device(tensorflow::DEVICE_CPU), JoinInstancesOp);

}  // namespace tensorflow_ipu
