// The launch op: a compiled cluster in the user's graph.
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/device_state.h"
#include "engine/error_text.h"
#include "engine/launch.h"
#include "plugin/device.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/demangle.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::DT_INT64;
using tensorflow::DT_RESOURCE;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::Var;

Status LaunchShapes(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  if (static_cast<int>(shapes.size()) != c->num_outputs()) {
    return tensorflow::shape_inference::UnknownShape(c);
  }
  for (int i = 0; i < c->num_outputs(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return tensorflow::OkStatus();
}

// The device holds 64-bit integers in 32 bits: values outside int32 wrap without a word.
Tensor Narrow(const Tensor& tensor) {
  if (tensor.dtype() != DT_INT64) return tensor;
  const auto values = tensor.flat<int64_t>();
  bool fits = true;
  for (int64_t i = 0; i < values.size(); ++i) {
    fits = fits && values(i) == static_cast<int32_t>(values(i));
  }
  if (fits) return tensor;
  Tensor narrowed(DT_INT64, tensor.shape());
  auto output = narrowed.flat<int64_t>();
  for (int64_t i = 0; i < values.size(); ++i) output(i) = static_cast<int32_t>(values(i));
  return narrowed;
}

bool IsVariable(const ResourceHandle& handle) {
  return handle.hash_code() == tensorflow::TypeIndex::Make<Var>().hash_code();
}

// Says what a handle is that a program was given in the place of one of its device's variables.
// `compiler/resource_check.py` sees nearly all of them earlier, and knows more of them.
Status RefuseResource(const ResourceHandle& handle) {
  if (!IsVariable(handle)) {
    return tensorflow::errors::InvalidArgument(
        "An IPU program uses the resource ", handle.name(), " of the type ",
        tensorflow::port::Demangle(handle.maybe_type_name().c_str()), " on ", handle.device(),
        ", and programs on the IPU have no resources but variables. Use it on the host, before or "
        "after the program.");
  }
  return tensorflow::errors::InvalidArgument(
      "An IPU program uses the variable ", handle.name(), " on ", handle.device(),
      ". Create its variables on the IPU: inside `with strategy.scope():`, or `with "
      "ipu.scopes.ipu_scope(\"/device:IPU:0\"):`.");
}

// Finds the variable that `handle` names. It must have a value.
Status FindVariable(OpKernelContext* ctx, const ResourceHandle& handle,
                    tensorflow::core::RefCountPtr<Var>* variable) {
  if (!IsVariable(handle)) return RefuseResource(handle);
  const Status found = tensorflow::LookupResource(ctx, handle, variable);
  if (!found.ok() && !tensorflow::errors::IsNotFound(found)) return found;
  bool initialized = found.ok();
  if (initialized) {
    tensorflow::tf_shared_lock lock(*(*variable)->mu());
    initialized = (*variable)->is_initialized;
  }
  if (initialized) return tensorflow::OkStatus();
  return tensorflow::errors::FailedPrecondition(
      "Error while reading resource variable ", handle.name(),
      ": it is uninitialized. Run its initializer before the IPU program that uses it.");
}

// Identifies a specialisation of the cluster: another type or shape means another program.
std::string Signature(const std::vector<Argument>& arguments) {
  std::string signature;
  for (const Argument& argument : arguments) {
    tensorflow::strings::StrAppend(&signature, argument.is_variable ? "v" : "t",
                                   static_cast<int>(argument.dtype));
    for (int64_t size : argument.shape.dim_sizes()) {
      tensorflow::strings::StrAppend(&signature, ",", size);
    }
    signature += ';';
  }
  return signature;
}

class LaunchOp : public AsyncOpKernel {
 public:
  explicit LaunchOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("cluster", &cluster_));
    const auto* device = static_cast<tensorflow::Device*>(ctx->device());
    ordinal_ = device->parsed_name().id;
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    std::vector<LaunchArgument> inputs;
    std::vector<Argument> arguments;
    OP_REQUIRES_OK_ASYNC(ctx, Collect(ctx, &inputs, &arguments), done);
    LoadedProgram loaded;
    OP_REQUIRES_OK_ASYNC(ctx, Explained(cluster_, Load(ctx, std::move(arguments), &loaded)), done);
    Launch(loaded, ordinal_, ctx, std::move(inputs),
           [this, ctx, done](const Status& status, std::vector<Tensor> results) {
             ctx->SetStatus(Explained(cluster_, status));
             for (size_t i = 0; status.ok() && i < results.size(); ++i) {
               ctx->set_output(i, Narrow(results[i]));
             }
             done();
           });
  }

 private:
  Status Collect(OpKernelContext* ctx, std::vector<LaunchArgument>* inputs,
                 std::vector<Argument>* arguments) {
    inputs->reserve(ctx->num_inputs());
    arguments->reserve(ctx->num_inputs());
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const Tensor& tensor = ctx->input(i);
      LaunchArgument input;
      if (tensor.dtype() == DT_RESOURCE) {
        TF_RETURN_IF_ERROR(FindVariable(ctx, tensor.scalar<ResourceHandle>()(), &input.variable));
        tensorflow::tf_shared_lock lock(*input.variable->mu());
        const Tensor* value = input.variable->tensor();
        arguments->push_back({value->dtype(), value->shape(), /*is_variable=*/true});
      } else {
        input.tensor = Narrow(tensor);
        arguments->push_back({tensor.dtype(), tensor.shape(), /*is_variable=*/false});
      }
      inputs->push_back(std::move(input));
    }
    return tensorflow::OkStatus();
  }

  // The program for these arguments and the configuration in force: compiled at first use.
  Status Load(OpKernelContext* ctx, std::vector<Argument> arguments, LoadedProgram* loaded) {
    const std::string signature = Signature(arguments);
    tensorflow::mutex_lock lock(mu_);
    if (generation_ != Attachment::generation()) {
      loaded_.clear();
      generation_ = Attachment::generation();
    }
    const auto found = loaded_.find(signature);
    if (found != loaded_.end()) {
      *loaded = found->second;
      return tensorflow::OkStatus();
    }
    std::shared_ptr<Program> program;
    TF_RETURN_IF_ERROR(Compile(cluster_, ordinal_, std::move(arguments), &program));
    TF_RETURN_IF_ERROR(LoadProgram(std::move(program), ordinal_, ctx->num_inputs(),
                                   ctx->num_outputs(), ctx->function_library(), loaded));
    loaded_.emplace(signature, *loaded);
    return tensorflow::OkStatus();
  }

  std::string cluster_;
  int ordinal_;
  tensorflow::mutex mu_;
  int64_t generation_ TF_GUARDED_BY(mu_) = -1;
  std::unordered_map<std::string, LoadedProgram> loaded_ TF_GUARDED_BY(mu_);
};

// A launch with a resource on the CPU ends up there, because TensorFlow moves an op to the device
// of its resources.
class MisplacedLaunchOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      if (ctx->input_dtype(i) == DT_RESOURCE) {
        ctx->SetStatus(RefuseResource(ctx->input(i).scalar<ResourceHandle>()()));
        return;
      }
    }
    ctx->SetStatus(tensorflow::errors::InvalidArgument(
        "An IPU program was placed on ", ctx->device()->attributes().name(),
        ". Put its launch into `with ipu.scopes.ipu_scope(\"/device:IPU:0\"):`."));
  }
};

}  // namespace

REGISTER_OP("IpuLaunch")
    .Input("args: Targs")
    .Output("results: Tresults")
    .Attr("Targs: list(type) >= 0")
    .Attr("Tresults: list(type) >= 0")
    .Attr("f: func")
    .Attr("cluster: string")
    .Attr("output_shapes: list(shape) = []")
    .SetIsStateful()
    .SetShapeFn(LaunchShapes)
    .Doc("Runs a cluster on the IPU device it is placed on.");

REGISTER_KERNEL_BUILDER(Name("IpuLaunch").Device("IPU").HostMemory("args").HostMemory("results"),
                        LaunchOp);
REGISTER_KERNEL_BUILDER(Name("IpuLaunch").Device(tensorflow::DEVICE_CPU), MisplacedLaunchOp);

}  // namespace tensorflow_ipu
