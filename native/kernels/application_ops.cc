// Ops of the embedded runtime. The work is done in engine/application.

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/application.h"
#include "engine/device_state.h"
#include "engine/interpreter.h"
#include "engine/launch_context.h"
#include "kernels/declared_shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("IpuApplicationStart")
    .Input("engine: string")
    .Input("identifier: string")
    .Input("library: string")
    .Input("entry: string")
    .Input("replicas: int32")
    .Input("timeout: int64")
    .Input("args: Targs")
    .Attr("Targs: list(type) >= 0")
    .Attr("num_results: int >= 0")
    .Attr("infeed_sizes: list(int)")
    .Attr("input_types: list(type) >= 0")
    .Attr("input_shapes: list(shape) >= 0")
    .Attr("outfeed_sizes: list(int)")
    .Attr("output_types: list(type) >= 0")
    .Attr("output_shapes: list(shape) >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Starts the engine of a compiled application, in eager mode.");

REGISTER_OP("IpuApplicationCall")
    .Input("engine: string")
    .Input("inputs: Tinputs")
    .Output("outputs: output_types")
    .Attr("Tinputs: list(type) >= 0")
    .Attr("output_types: list(type) >= 0")
    .Attr("output_shapes: list(shape) >= 0")
    .SetIsStateful()
    .SetShapeFn(DeclaredShapes)
    .Doc("Has a running engine process one batch.");

REGISTER_OP("IpuApplicationReceive")
    .Output("outputs: output_types")
    .Attr("infeed: int >= 0")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()
    .SetShapeFn(DeclaredShapes)
    .Doc("In an application, stands in the place of the dequeue of an infeed.");

REGISTER_OP("IpuApplicationSend")
    .Input("inputs: T")
    .Attr("T: list(type) >= 1")
    .Attr("outfeed: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("In an application, stands in the place of the enqueue of an outfeed.");

REGISTER_OP("IpuRaise")
    .Input("value: T")
    .Input("code: int32")
    .Input("message: string")
    .Output("output: T")
    .Attr("T: type")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(0));
      return tensorflow::OkStatus();
    })
    .Doc("Passes a value on, or ends with the error that Python code on the host has found.");

class StartOp : public OpKernel {
 public:
  explicit StartOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_results", &num_results_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("infeed_sizes", &infeeds_.sizes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("input_types", &infeeds_.types));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("input_shapes", &infeeds_.shapes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("outfeed_sizes", &outfeeds_.sizes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &outfeeds_.types));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &outfeeds_.shapes));
  }

  void Compute(OpKernelContext* ctx) override {
    const std::string name = Text(ctx, 0);
    if (Application* running = Application::Find(name)) {
      ctx->SetStatus(running->CheckRuns(Text(ctx, 1)));
      return;
    }
    auto program = std::make_shared<Program>();
    OP_REQUIRES_OK(ctx, ReadProgram(ctx, program.get()));
    std::vector<LaunchArgument> arguments;
    OP_REQUIRES_OK(ctx, ReadArguments(ctx, &arguments));
    const int ordinal = DeviceState::Add();
    LoadedProgram loaded;
    OP_REQUIRES_OK(ctx, LoadProgram(std::move(program), ordinal, FindAliases(arguments),
                                    num_results_, ctx->function_library(), &loaded));
    ApplicationOptions options{name, ordinal, infeeds_, outfeeds_,
                               ctx->input(5).scalar<int64_t>()()};
    OP_REQUIRES_OK(ctx,
                   Application::Start(std::move(options), std::move(loaded), std::move(arguments)));
  }

 private:
  static std::string Text(OpKernelContext* ctx, int index) {
    return ctx->input(index).scalar<tstring>()();
  }

  static Status ReadProgram(OpKernelContext* ctx, Program* program) {
    program->id = Text(ctx, 1);
    program->entry = Text(ctx, 3);
    program->replicas = ctx->input(4).scalar<int32_t>()();
    program->on_device = false;  // its events would be those of a program that nobody knows here
    tensorflow::FunctionDefLibrary functions;
    if (!functions.ParseFromString(Text(ctx, 2))) {
      return tensorflow::errors::InvalidArgument("The functions of an application are damaged.");
    }
    program->library = std::make_unique<tensorflow::FunctionLibraryDefinition>(
        tensorflow::OpRegistry::Global(), functions);
    return tensorflow::OkStatus();
  }

  static Status ReadArguments(OpKernelContext* ctx, std::vector<LaunchArgument>* arguments) {
    for (int i = 6; i < ctx->num_inputs(); ++i) {
      LaunchArgument argument;
      if (ctx->input_dtype(i) == tensorflow::DT_RESOURCE) {
        const auto& handle = ctx->input(i).scalar<ResourceHandle>()();
        TF_RETURN_IF_ERROR(tensorflow::LookupResource(ctx, handle, &argument.variable));
      } else {
        argument.tensor = ctx->input(i);
      }
      arguments->push_back(std::move(argument));
    }
    return tensorflow::OkStatus();
  }

  int num_results_;
  FeedTensors infeeds_, outfeeds_;
};

class CallOp : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  // Called by a thread that waits: one of Python, in eager mode.
  void Compute(OpKernelContext* ctx) override {
    Application* application;
    OP_REQUIRES_OK(ctx, Find(ctx, &application));
    absl::Notification done;
    const uint64_t call =
        application->Call(Inputs(ctx), [ctx, &done](const Status& status, Element outputs) {
          Answer(ctx, status, std::move(outputs));
          done.Notify();
        });
    if (WaitInPython(&done, [application, call] { application->Cancel(call); })) {
      ctx->SetStatus(tensorflow::errors::Cancelled("Interrupted by a signal."));
    }
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    Application* application;
    OP_REQUIRES_OK_ASYNC(ctx, Find(ctx, &application), done);
    CancellationManager* manager = ctx->cancellation_manager();
    const auto state = std::make_shared<CallState>();
    auto token = CancellationManager::kInvalidToken;
    if (manager != nullptr) {
      token = manager->get_cancellation_token();
      const bool registered = manager->RegisterCallback(token, [application, state] {
        state->cancelled = true;
        application->Cancel(state->number);
      });
      OP_REQUIRES_ASYNC(ctx, registered, tensorflow::errors::Cancelled("The call was cancelled."),
                        done);
    }
    state->number = application->Call(Inputs(ctx), [ctx, manager, token, done = std::move(done)](
                                                       const Status& status, Element outputs) {
      if (manager != nullptr) manager->TryDeregisterCallback(token);
      // As in WaitInPython: who waits for the step may be a thread of Python.
      if (Interpreter::has_ended()) return;
      Answer(ctx, status, std::move(outputs));
      done();
    });
    if (state->cancelled) application->Cancel(state->number);
  }

 private:
  // A call in a step that may be cancelled: before the call has a number, too.
  struct CallState {
    std::atomic<bool> cancelled{false};
    std::atomic<uint64_t> number{Application::kNoCall};
  };

  static Status Find(OpKernelContext* ctx, Application** application) {
    const std::string name = ctx->input(0).scalar<tstring>()();
    *application = Application::Find(name);
    if (*application != nullptr) return tensorflow::OkStatus();
    return tensorflow::errors::FailedPrecondition(
        "No engine called ", name,
        " runs in this process. Start it first, with embedded_runtime_start.");
  }

  static Element Inputs(OpKernelContext* ctx) {
    Element inputs;
    for (int i = 1; i < ctx->num_inputs(); ++i) inputs.push_back(ctx->input(i));
    return inputs;
  }

  static void Answer(OpKernelContext* ctx, const Status& status, Element outputs) {
    ctx->SetStatus(status);
    if (!status.ok()) return;
    if (static_cast<int>(outputs.size()) != ctx->num_outputs()) {
      ctx->SetStatus(tensorflow::errors::Internal("An application gave ", outputs.size(),
                                                  " outputs in the place of ", ctx->num_outputs(),
                                                  "."));
      return;
    }
    for (size_t i = 0; i < outputs.size(); ++i) ctx->set_output(i, std::move(outputs[i]));
  }
};

// The application whose program `ctx` is in.
Status ApplicationOf(OpKernelContext* ctx, LaunchContext** launch, Application** application) {
  *launch = LaunchContext::From(ctx);
  *application = *launch == nullptr ? nullptr : Application::Of((*launch)->device_ordinal());
  if (*application != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::FailedPrecondition(
      ctx->op_kernel().type_string(), " works only in an application of the embedded runtime.");
}

class ReceiveOp : public AsyncOpKernel {
 public:
  explicit ReceiveOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("infeed", &infeed_));
  }

  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    LaunchContext* launch;
    Application* application;
    OP_REQUIRES_OK_ASYNC(ctx, ApplicationOf(ctx, &launch, &application), done);
    application->Receive(infeed_, launch->replica(), ctx->cancellation_manager(),
                         [ctx, done = std::move(done)](const Status& status, Element element) {
                           ctx->SetStatus(status);
                           for (size_t i = 0; i < element.size(); ++i) {
                             ctx->set_output(i, std::move(element[i]));
                           }
                           done();
                         });
  }

 private:
  int infeed_;
};

class SendOp : public OpKernel {
 public:
  explicit SendOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("outfeed", &outfeed_));
  }

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    LaunchContext* launch;
    Application* application;
    OP_REQUIRES_OK(ctx, ApplicationOf(ctx, &launch, &application));
    Element element;
    for (int i = 0; i < ctx->num_inputs(); ++i) element.push_back(ctx->input(i));
    OP_REQUIRES_OK(ctx, application->Send(outfeed_, launch->replica(), std::move(element)));
  }

 private:
  int outfeed_;
};

class RaiseOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const int code = ctx->input(1).scalar<int32_t>()();
    if (code != 0) {
      const std::string message = ctx->input(2).scalar<tstring>()();
      ctx->SetStatus(Status(static_cast<absl::StatusCode>(code), message));
      return;
    }
    ctx->set_output(0, ctx->input(0));
  }
};

REGISTER_KERNEL_BUILDER(Name("IpuApplicationStart").Device(tensorflow::DEVICE_CPU), StartOp);
REGISTER_KERNEL_BUILDER(Name("IpuApplicationCall").Device(tensorflow::DEVICE_CPU), CallOp);
REGISTER_KERNEL_BUILDER(Name("IpuApplicationReceive").Device(tensorflow::DEVICE_CPU), ReceiveOp);
REGISTER_KERNEL_BUILDER(Name("IpuApplicationSend").Device(tensorflow::DEVICE_CPU), SendOp);
REGISTER_KERNEL_BUILDER(Name("IpuRaise").Device(tensorflow::DEVICE_CPU), RaiseOp);

}  // namespace
}  // namespace tensorflow_ipu
