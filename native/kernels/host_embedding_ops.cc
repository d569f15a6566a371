// Ops of host embeddings. The tables are in engine/host_table.h.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/host_table.h"
#include "engine/launch_context.h"
#include "kernels/collective_kernel.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::core::RefCountPtr;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

Status TableShape(InferenceContext* c, ShapeHandle* shape) {
  tensorflow::PartialTensorShape declared;
  TF_RETURN_IF_ERROR(c->GetAttr("shape", &declared));
  TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(declared, shape));
  return c->WithRank(*shape, 2, shape);
}

Status DeregisterShape(InferenceContext* c) {
  ShapeHandle table;
  TF_RETURN_IF_ERROR(TableShape(c, &table));
  c->set_output(0, table);
  return tensorflow::OkStatus();
}

Status LookupShape(InferenceContext* c) {
  ShapeHandle table, output;
  TF_RETURN_IF_ERROR(TableShape(c, &table));
  TF_RETURN_IF_ERROR(c->Concatenate(c->input(0), c->Vector(c->Dim(table, 1)), &output));
  c->set_output(0, output);
  return tensorflow::OkStatus();
}

Status LaunchOf(OpKernelContext* ctx, LaunchContext** launch) {
  *launch = LaunchContext::From(ctx);
  if (*launch != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::FailedPrecondition(
      ctx->op_kernel().type_string(),
      " works only in a program compiled for the IPU. Look up host embeddings in a function that "
      "is passed to ipu_compiler.compile or runs in an IPUStrategy.");
}

class RegisterOp : public OpKernel {
 public:
  explicit RegisterOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("embedding", &name_));
  }

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, HostTable::Register(ctx, name_, ctx->input(0)));
  }

 private:
  std::string name_;
};

class DeregisterOp : public OpKernel {
 public:
  explicit DeregisterOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("embedding", &name_));
  }

  void Compute(OpKernelContext* ctx) override {
    Tensor values;
    OP_REQUIRES_OK(ctx, HostTable::Deregister(ctx, name_, &values));
    ctx->set_output(0, std::move(values));
  }

 private:
  std::string name_;
};

class LookupOp : public OpKernel {
 public:
  explicit LookupOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("embedding", &name_));
  }

  void Compute(OpKernelContext* ctx) override {
    LaunchContext* launch;
    OP_REQUIRES_OK(ctx, LaunchOf(ctx, &launch));
    RefCountPtr<HostTable> table;
    OP_REQUIRES_OK(ctx, HostTable::Find(ctx, name_, &table));
    OP_REQUIRES_OK(ctx, table->Lookup(ctx, ctx->input(0)));
  }

 private:
  std::string name_;
};

// What one replica has collected for the next update. Lives as long as the launch.
class PendingUpdates : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "updates of a host embedding"; }

  // The inputs of the op in each backward pass. Written by the replica, and by the last one to come
  // while all others wait.
  std::vector<Tensor> tensors;
};

// Collects the gradients of `accumulation_factor` backward passes, then meets the other replicas:
// the last to come applies those of all, in the order of the replicas. Each process has a table of
// its own, to which it applies those of the replicas of all processes.
class UpdateOp : public CollectiveKernel {
 public:
  explicit UpdateOp(OpKernelConstruction* ctx) : CollectiveKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("embedding", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("accumulation_factor", &factor_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    RefCountPtr<PendingUpdates> pending;
    OP_REQUIRES_OK_ASYNC(ctx, Pending(ctx, &pending), done);
    for (int i = 0; i < kInputs; ++i) pending->tensors.push_back(ctx->input(i));
    if (static_cast<int>(pending->tensors.size()) < factor_ * kInputs) return done();
    CollectiveKernel::ComputeAsync(ctx, std::move(done));
  }

  Status Give(OpKernelContext* member, std::vector<Tensor>* given) const override {
    RefCountPtr<PendingUpdates> pending;
    TF_RETURN_IF_ERROR(Pending(member, &pending));
    std::move(pending->tensors.begin(), pending->tensors.end(), std::back_inserter(*given));
    pending->tensors.clear();
    return tensorflow::OkStatus();
  }

  Status Run(Inputs inputs, int /*first*/, Members members) const override {
    RefCountPtr<HostTable> table;
    TF_RETURN_IF_ERROR(HostTable::Find(members[0], name_, &table));
    std::vector<TableUpdate> updates;
    for (size_t i = 0; i < inputs.size(); i += kInputs) {
      updates.push_back({inputs[i], inputs[i + 1], inputs[i + 2].scalar<float>()()});
    }
    return table->Update(members[0], updates);
  }

 private:
  // Gradients, indices and learning rate.
  static constexpr int kInputs = 3;

  Status Pending(OpKernelContext* ctx, RefCountPtr<PendingUpdates>* pending) const {
    LaunchContext* launch;
    TF_RETURN_IF_ERROR(LaunchOf(ctx, &launch));
    PendingUpdates* found = nullptr;
    TF_RETURN_IF_ERROR(ctx->resource_manager()->LookupOrCreate<PendingUpdates>(
        launch->VariableContainer(), name(), &found, [this, launch](PendingUpdates** made) {
          *made = new PendingUpdates;
          CheckNothingIsLost(launch, *made);
          return tensorflow::OkStatus();
        }));
    pending->reset(found);
    return tensorflow::OkStatus();
  }

  // Gradients that are still collected when the program ends would be lost without a word.
  void CheckNothingIsLost(LaunchContext* launch, PendingUpdates* made) const {
    made->Ref();
    const std::shared_ptr<PendingUpdates> pending(made, [](PendingUpdates* p) { p->Unref(); });
    launch->CheckAtEnd([pending, table = name_, factor = factor_]() -> Status {
      if (pending->tensors.empty()) return tensorflow::OkStatus();
      return tensorflow::errors::FailedPrecondition(
          "The program ended ", pending->tensors.size() / kInputs,
          " mini-batches after the last update of the host embedding ", table,
          ": their gradients are lost. Its accumulation_factor, ", factor,
          ", has to evenly divide the iterations of the training loop.");
    });
  }

  std::string name_;
  int factor_;
};

}  // namespace

REGISTER_OP("IpuHostEmbeddingRegister")
    .Input("table: T")
    .Attr("T: {half, float}")
    .Attr("embedding: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Copies a table to where programs of this session find it.");

REGISTER_OP("IpuHostEmbeddingDeregister")
    .Output("table: T")
    .Attr("T: {half, float}")
    .Attr("shape: shape")
    .Attr("embedding: string")
    .SetIsStateful()
    .SetShapeFn(DeregisterShape)
    .Doc("Ends the registration of a table and returns it.");

// The scalars have no effect on the result: they are for the gradient. `anchor` is the variable
// that makes TensorFlow ask for it.
REGISTER_OP("IpuHostEmbeddingLookup")
    .Input("indices: int32")
    .Input("anchor: float")
    .Input("learning_rate: float")
    .Output("output: T")
    .Attr("T: {half, float}")
    .Attr("shape: shape")
    .Attr("embedding: string")
    .Attr("trains: bool")
    .Attr("accumulation_factor: int >= 1")
    .SetIsStateful()
    .SetShapeFn(LookupShape)
    .Doc("Rows of a registered table of the given shape.");

REGISTER_OP("IpuHostEmbeddingUpdate")
    .Input("gradients: T")
    .Input("indices: int32")
    .Input("learning_rate: float")
    .Attr("T: {half, float}")
    .Attr("embedding: string")
    .Attr("accumulation_factor: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Gradient descent on rows of a registered table, by all replicas together.");

#define REGISTER_HOST_KERNEL(name, kernel) \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU), kernel)

REGISTER_HOST_KERNEL("IpuHostEmbeddingRegister", RegisterOp);
REGISTER_HOST_KERNEL("IpuHostEmbeddingDeregister", DeregisterOp);
REGISTER_HOST_KERNEL("IpuHostEmbeddingLookup", LookupOp);
REGISTER_HOST_KERNEL("IpuHostEmbeddingUpdate", UpdateOp);

#undef REGISTER_HOST_KERNEL

}  // namespace tensorflow_ipu
