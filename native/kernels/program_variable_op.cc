// A variable that belongs to the program: it lives as long as one run of it.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/launch_context.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

// On the counter of mini-batches of a gradient accumulation (compiler/ir/program.py).
constexpr char kAccumulationAttribute[] = "_ipu_gradient_accumulation";

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::Var;

tensorflow::Status HandleShape(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::PartialTensorShape shape;
  TF_RETURN_IF_ERROR(c->GetAttr("shape", &shape));
  tensorflow::shape_inference::ShapeHandle handle;
  TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shape, &handle));
  tensorflow::DataType dtype;
  TF_RETURN_IF_ERROR(c->GetAttr("dtype", &dtype));
  c->set_output(0, c->Scalar());
  c->set_output_handle_shapes_and_types(
      0, std::vector<tensorflow::shape_inference::ShapeAndType>{{handle, dtype}});
  return tensorflow::OkStatus();
}

// Each node is a variable of its own. The name of the kernel tells nodes apart also where the same
// function was inlined twice.
class ProgramVariableOp : public tensorflow::OpKernel {
 public:
  explicit ProgramVariableOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &shape_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
    is_counter_ = ctx->HasAttr(kAccumulationAttribute) && dtype_ == tensorflow::DT_INT32;
  }

  void Compute(OpKernelContext* ctx) override {
    LaunchContext* launch = LaunchContext::From(ctx);
    OP_REQUIRES(ctx, launch != nullptr,
                tensorflow::errors::FailedPrecondition(
                    "The variable ", name(),
                    " exists in a run of an IPU program only. Compile the function that uses it "
                    "with ipu_compiler.compile or run it with IPUStrategy.run."));
    const std::string container = launch->VariableContainer();
    tensorflow::core::RefCountPtr<Var> variable;
    Var* found = nullptr;
    OP_REQUIRES_OK(ctx, ctx->resource_manager()->LookupOrCreate<Var>(
                            container, name(), &found,
                            [this, launch](Var** made) { return Make(launch, made); }));
    variable.reset(found);
    Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({}), &handle));
    handle->scalar<ResourceHandle>()() = tensorflow::MakeResourceHandle<Var>(
        ctx, container, name(), {tensorflow::DtypeAndPartialTensorShape{dtype_, shape_}});
  }

 private:
  Status Make(LaunchContext* launch, Var** made) const {
    Tensor zeros(dtype_, shape_);
    if (!tensorflow::DataTypeCanUseMemcpy(dtype_)) {
      return tensorflow::errors::InvalidArgument(
          "The variable ", name(), " of a program is of the type ",
          tensorflow::DataTypeString(dtype_), ". Expected a type of numbers or bool.");
    }
    // All bits zero is zero, or false, in every type that a device has.
    tensorflow::StringPiece bytes = zeros.tensor_data();
    std::fill_n(const_cast<char*>(bytes.data()), bytes.size(), 0);
    *made = new Var(dtype_);
    *(*made)->tensor() = zeros;
    launch->AddVariable(zeros.TotalBytes());
    (*made)->is_initialized = true;
    if (is_counter_) {
      (*made)->Ref();
      const std::shared_ptr<Var> counter(*made, [](Var* variable) { variable->Unref(); });
      launch->CheckAtEnd(
          [counter, name = name()] { return CheckEndsWithUpdate(*counter->tensor(), name); });
    }
    return tensorflow::OkStatus();
  }

  // Gradients that were accumulated after the last update would be lost without a word. Where the
  // compiler knows how often a loop runs, it has found that out already.
  static Status CheckEndsWithUpdate(const Tensor& counter, const std::string& name) {
    const int32_t pending = counter.scalar<int32_t>()();
    if (pending == 0) return tensorflow::OkStatus();
    return tensorflow::errors::FailedPrecondition(
        "The program ended ", pending, " mini-batches after the last update of ", name,
        ": their gradients are lost. The number of mini-batches for one update has to evenly "
        "divide the iterations of the training loop.");
  }

  tensorflow::TensorShape shape_;
  tensorflow::DataType dtype_;
  bool is_counter_;
};

}  // namespace

REGISTER_OP("IpuProgramVariable")
    .Output("handle: resource")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc("A variable of one run of a program and one replica; zero at the start of the run.");

REGISTER_KERNEL_BUILDER(Name("IpuProgramVariable").Device(tensorflow::DEVICE_CPU),
                        ProgramVariableOp);

}  // namespace tensorflow_ipu
