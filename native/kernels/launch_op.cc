// The launch op: a compiled cluster in the user's graph.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/error_text.h"
#include "engine/interpreter.h"
#include "engine/interrupts.h"
#include "engine/launch.h"
#include "engine/loaded_programs.h"
#include "engine/placed_clusters.h"
#include "engine/running_launches.h"
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
// `compiler/checks/foreign_resources.py` sees nearly all of them earlier, and knows more of them.
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

// Identifies a specialisation of the cluster: another type or shape means another program, and so
// do other arguments that are one variable.
std::string Signature(const std::vector<Argument>& arguments, const std::vector<int>& aliases) {
  std::string signature;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    tensorflow::strings::StrAppend(&signature, argument.is_variable ? "v" : "t",
                                   static_cast<int>(argument.dtype));
    if (aliases[i] != static_cast<int>(i))
      tensorflow::strings::StrAppend(&signature, "=", aliases[i]);
    for (int64_t size : argument.shape.dim_sizes()) {
      tensorflow::strings::StrAppend(&signature, ",", size);
    }
    signature += ';';
  }
  return signature;
}

// How long a launch is kept waiting that a program asks for after the end of its interpreter.
constexpr int64_t kLateMicroseconds = 5 * 1000 * 1000;

// Launches Clusters. What it does not know is which: that is an attribute of the op in a graph, and
// an input of the op that runs eagerly.
class LaunchKernel : public AsyncOpKernel {
 public:
  LaunchKernel(OpKernelConstruction* ctx, bool programs_go_with_cluster)
      : AsyncOpKernel(ctx), programs_(programs_go_with_cluster) {
    const auto* device = static_cast<tensorflow::Device*>(ctx->device());
    ordinal_ = device->parsed_name().id;
  }

  // Called by a thread that waits: one of Python, in eager mode.
  void Compute(OpKernelContext* ctx) override {
    absl::Notification done;
    uint64_t launch = 0;
    const Status started = Start(ctx, Waiter::kPython, &launch, [&done] { done.Notify(); });
    if (!started.ok()) {
      ctx->SetStatus(started);
      done.Notify();
    }
    const Status interrupted = tensorflow::errors::Cancelled("Interrupted by a signal.");
    if (WaitInPython(&done, [&] { RunningLaunches::Stop(launch, interrupted); })) {
      ctx->SetStatus(interrupted);
    }
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    if (Interpreter::has_ended()) return Refuse(ctx, std::move(done));
    WatchInterrupts();
    uint64_t launch;
    // As in WaitInPython: who waits for the step may be a thread of Python.
    const auto done_unless_ended = [done = std::move(done)] {
      if (!Interpreter::has_ended()) done();
    };
    OP_REQUIRES_OK_ASYNC(ctx, Start(ctx, Waiter::kTensorFlow, &launch, done_unless_ended),
                         done_unless_ended);
  }

 protected:
  virtual std::string Cluster(OpKernelContext* ctx) const = 0;
  // The first input that is an argument of the Cluster.
  virtual int FirstArgument() const = 0;

 private:
  // Late, because threads that would try again at once should not come back before all is over.
  static void Refuse(OpKernelContext* ctx, DoneCallback done) {
    ctx->env()->SchedClosureAfter(kLateMicroseconds, [ctx, done = std::move(done)] {
      ctx->SetStatus(tensorflow::errors::Cancelled("The process is ending."));
      done();
    });
  }

  // Calls `done` when the launch has ended, unless this is an error. Gives its number.
  Status Start(OpKernelContext* ctx, Waiter waiter, uint64_t* launch, DoneCallback done) {
    std::vector<LaunchArgument> inputs;
    std::vector<Argument> arguments;
    TF_RETURN_IF_ERROR(Collect(ctx, &inputs, &arguments));
    const std::string cluster = Cluster(ctx);
    LoadedPrograms::Loaded program;
    TF_RETURN_IF_ERROR(Explained(
        cluster, Load(ctx, cluster, std::move(arguments), FindAliases(inputs), &program)));
    *launch = Launch(
        std::move(program), ordinal_, waiter, {ctx->runner(), ctx->cancellation_manager()},
        std::move(inputs),
        [ctx, cluster, done = std::move(done)](const Status& status, std::vector<Tensor> results) {
          ctx->SetStatus(Explained(cluster, status));
          for (size_t i = 0; status.ok() && i < results.size(); ++i) {
            ctx->set_output(i, Narrow(results[i]));
          }
          done();
        });
    return tensorflow::OkStatus();
  }

  Status Collect(OpKernelContext* ctx, std::vector<LaunchArgument>* inputs,
                 std::vector<Argument>* arguments) {
    inputs->reserve(ctx->num_inputs());
    arguments->reserve(ctx->num_inputs());
    for (int i = FirstArgument(); i < ctx->num_inputs(); ++i) {
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
  Status Load(OpKernelContext* ctx, const std::string& cluster, std::vector<Argument> arguments,
              const std::vector<int>& aliases, LoadedPrograms::Loaded* loaded) {
    const std::string signature = Signature(arguments, aliases);
    return programs_.Get(
        cluster, signature,
        [&](LoadedProgram* made) {
          std::shared_ptr<Program> program;
          TF_RETURN_IF_ERROR(Compile(cluster, ordinal_, std::move(arguments), &program));
          // A server's session keeps its kernels, but not the graph that has run them first, nor
          // what runs the functions of that. Its graphs are the ones without a call frame.
          const auto load = ctx->call_frame() == nullptr ? LoadProgramInClone : LoadProgram;
          return load(std::move(program), ordinal_, aliases, ctx->num_outputs(),
                      ctx->function_library(), made);
        },
        loaded);
  }

  int ordinal_;
  LoadedPrograms programs_;
};

class LaunchOp : public LaunchKernel {
 public:
  // A graph may be a copy that outlives the one which has the Cluster.
  explicit LaunchOp(OpKernelConstruction* ctx)
      : LaunchKernel(ctx, /*programs_go_with_cluster=*/false) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("cluster", &cluster_));
    PlacedClusters::Hold(cluster_);
  }

  ~LaunchOp() override { PlacedClusters::Release(cluster_); }

 protected:
  std::string Cluster(OpKernelContext*) const override { return cluster_; }
  int FirstArgument() const override { return 0; }

 private:
  std::string cluster_;
};

// TensorFlow keeps the kernels of eager ops for ever, one for all ops with the same attributes. So
// this one serves all Clusters with the same types of arguments and results.
class LaunchClusterOp : public LaunchKernel {
 public:
  explicit LaunchClusterOp(OpKernelConstruction* ctx)
      : LaunchKernel(ctx, /*programs_go_with_cluster=*/true) {}

 protected:
  std::string Cluster(OpKernelContext* ctx) const override {
    return ctx->input(0).scalar<tensorflow::tstring>()();
  }
  int FirstArgument() const override { return 1; }
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
    .Doc("Runs a cluster on the IPU device it is placed on, in a graph.");

REGISTER_OP("IpuLaunchCluster")
    .Input("cluster: string")
    .Input("args: Targs")
    .Output("results: Tresults")
    .Attr("Targs: list(type) >= 0")
    .Attr("Tresults: list(type) >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("Runs a cluster on the IPU device it is placed on, in eager mode.");

REGISTER_KERNEL_BUILDER(Name("IpuLaunch").Device("IPU").HostMemory("args").HostMemory("results"),
                        LaunchOp);
REGISTER_KERNEL_BUILDER(Name("IpuLaunchCluster")
                            .Device("IPU")
                            .HostMemory("cluster")
                            .HostMemory("args")
                            .HostMemory("results"),
                        LaunchClusterOp);
REGISTER_KERNEL_BUILDER(Name("IpuLaunch").Device(tensorflow::DEVICE_CPU), MisplacedLaunchOp);
REGISTER_KERNEL_BUILDER(Name("IpuLaunchCluster").Device(tensorflow::DEVICE_CPU), MisplacedLaunchOp);

}  // namespace tensorflow_ipu
