// Entries of remote buffers.
#include "engine/remote_memory.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Gives a variable that has no value one of entries.
class MakeRemoteMemoryOp : public OpKernel {
 public:
  explicit MakeRemoteMemoryOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &shape_));
  }

  void Compute(OpKernelContext* ctx) override {
    RefCountPtr<Var> variable;
    OP_REQUIRES_OK(ctx,
                   tensorflow::LookupOrCreateResource<Var>(ctx, tensorflow::HandleFromInput(ctx, 0),
                                                           &variable, [this](Var** made) {
                                                             *made = new Var(dtype_);
                                                             return tensorflow::OkStatus();
                                                           }));
    tensorflow::mutex_lock lock(*variable->mu());
    OP_REQUIRES_OK(ctx, RemoteMemory::Make(dtype_, shape_, variable->tensor()));
    variable->is_initialized = true;
  }

 private:
  tensorflow::DataType dtype_;
  tensorflow::TensorShape shape_;
};

Status FindBuffer(OpKernelContext* ctx, RefCountPtr<Var>* variable) {
  return tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, 0), variable);
}

class RemoteLoadOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    RefCountPtr<Var> variable;
    OP_REQUIRES_OK(ctx, FindBuffer(ctx, &variable));
    tensorflow::tf_shared_lock lock(*variable->mu());
    Tensor value;
    OP_REQUIRES_OK(
        ctx, RemoteMemory::Load(*variable->tensor(), ctx->input(1).flat<int32_t>()(0), &value));
    ctx->set_output(0, value);
  }
};

class RemoteStoreOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    RefCountPtr<Var> variable;
    OP_REQUIRES_OK(ctx, FindBuffer(ctx, &variable));
    tensorflow::mutex_lock lock(*variable->mu());
    OP_REQUIRES_OK(ctx, RemoteMemory::Store(ctx->input(1).flat<int32_t>()(0), ctx->input(2),
                                            variable->tensor()));
  }
};

Status EntryShape(InferenceContext* c) {
  const auto* handle = c->input_handle_shapes_and_types(0);
  if (handle == nullptr || handle->empty()) return tensorflow::shape_inference::UnknownShape(c);
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->Subshape((*handle)[0].shape, 1, &shape));
  c->set_output(0, shape);
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("IpuMakeRemoteMemory")
    .Input("resource: resource")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Makes a variable a remote buffer. The first dimension is that of its entries, all zero.");

REGISTER_OP("IpuRemoteLoad")
    .Input("resource: resource")
    .Input("entry: int32")
    .Output("output: dtype")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn(EntryShape)
    .Doc("Loads an entry of a remote buffer.");

REGISTER_OP("IpuRemoteStore")
    .Input("resource: resource")
    .Input("entry: int32")
    .Input("value: dtype")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Replaces an entry of a remote buffer. The value may have leading dimensions of 1.");

REGISTER_KERNEL_BUILDER(Name("IpuMakeRemoteMemory").Device(tensorflow::DEVICE_CPU),
                        MakeRemoteMemoryOp);
REGISTER_KERNEL_BUILDER(Name("IpuMakeRemoteMemory").Device("IPU").HostMemory("resource"),
                        MakeRemoteMemoryOp);
REGISTER_KERNEL_BUILDER(Name("IpuRemoteLoad").Device(tensorflow::DEVICE_CPU), RemoteLoadOp);
REGISTER_KERNEL_BUILDER(Name("IpuRemoteStore").Device(tensorflow::DEVICE_CPU), RemoteStoreOp);

}  // namespace tensorflow_ipu
