// Custom operations: functions of users' libraries, in the middle of a program.
#include "engine/user_op.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/launch_context.h"
#include "engine/user_program.h"
#include "include/tensorflow_ipu/custom_op.h"
#include "kernels/collective_kernel.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// The function of cpu_user_operation.
using HostFunction = void(const std::vector<const void*>& inputs,
                          const std::vector<uint32_t>& numbers_of_elements,
                          std::vector<void*>& outputs, const std::string& attributes,
                          const std::string& name);
// Its gradient, where each input has a call of its own.
using HostGradient = void(const std::vector<const void*>& inputs,
                          const std::vector<uint32_t>& numbers_of_elements,
                          std::vector<void*>& outputs, const std::string& attributes,
                          const std::string& name, int32_t input_grad_index);

// Tensors as the header describes them.
class CTensors {
 public:
  explicit CTensors(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      const auto dims = tensor.shape().dim_sizes();
      shapes_.emplace_back(dims.begin(), dims.end());
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i];
      views_.push_back({static_cast<int32_t>(tensor.dtype()), tensor.dims(), shapes_[i].data(),
                        tensor.NumElements(), tensor.data()});
    }
  }

  int32_t size() const { return static_cast<int32_t>(views_.size()); }
  const tensorflow_ipu_tensor* begin() const { return views_.data(); }

 private:
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<tensorflow_ipu_tensor> views_;
};

// A Poplar program with its states: of each replica that its kernel runs for, or one of all.
// Kernels are shared by replicas that take turns.
class Program {
 public:
  explicit Program(std::shared_ptr<const UserProgram> program) : program_(std::move(program)) {}

  const UserProgram& program() const { return *program_; }

  // Runs for a replica, or for all of them.
  Status Run(int replica, UserProgram::Tensors inputs, UserProgram::Tensors outputs) {
    Replica* state = nullptr;
    {
      tensorflow::mutex_lock lock(mu_);
      std::unique_ptr<Replica>& found = replicas_[replica];
      if (found == nullptr) found = std::make_unique<Replica>();
      state = found.get();
    }
    tensorflow::mutex_lock lock(state->mu);
    if (state->state == nullptr) TF_RETURN_IF_ERROR(program_->MakeState(replica, &state->state));
    return state->state->Run(inputs, outputs);
  }

 private:
  struct Replica {
    tensorflow::mutex mu;
    std::unique_ptr<UserProgram::State> state;
  };

  const std::shared_ptr<const UserProgram> program_;
  tensorflow::mutex mu_;
  std::map<int, std::unique_ptr<Replica>> replicas_ TF_GUARDED_BY(mu_);
};

// The programs of a kernel, by the shapes of its inputs.
class Programs {
 public:
  // Gives the program for the shapes of the inputs, which is built if there is none.
  Status Find(const UserOp& op, const std::vector<Tensor>& tensors, Program** program) {
    tensorflow::mutex_lock lock(mu_);
    for (const auto& known : programs_) {
      if (HasShapes(tensors, known->program().inputs())) {
        *program = known.get();
        return tensorflow::OkStatus();
      }
    }
    UserProgram::Shapes inputs;
    for (const Tensor& tensor : tensors) inputs.push_back(tensor.shape());
    std::shared_ptr<const UserProgram> built;
    TF_RETURN_IF_ERROR(UserProgram::Get(op, inputs, &built));
    programs_.push_back(std::make_unique<Program>(std::move(built)));
    *program = programs_.back().get();
    return tensorflow::OkStatus();
  }

 private:
  static bool HasShapes(const std::vector<Tensor>& tensors, const UserProgram::Shapes& shapes) {
    return std::equal(
        tensors.begin(), tensors.end(), shapes.begin(), shapes.end(),
        [](const Tensor& tensor, const TensorShape& shape) { return tensor.shape() == shape; });
  }

  tensorflow::mutex mu_;
  std::vector<std::unique_ptr<Program>> programs_ TF_GUARDED_BY(mu_);
};

// Makes the outputs of an execution of an operation.
class OutputMaker {
 public:
  OutputMaker(OpKernelContext* ctx, const UserOp& op) : ctx_(*ctx), op_(op) {}

  // One that shares memory with an input takes over that, or else a copy, which then stands for
  // the input too.
  Status Make(const std::vector<int32_t>& aliases, std::vector<Tensor>* inputs,
              std::vector<Tensor>* outputs) {
    outputs->reserve(ctx_.num_outputs());
    for (int i = 0; i < ctx_.num_outputs(); ++i) {
      TF_RETURN_IF_ERROR(MakeOne(aliases, i, inputs, outputs));
    }
    return tensorflow::OkStatus();
  }

 private:
  Status MakeOne(const std::vector<int32_t>& aliases, int index, std::vector<Tensor>* inputs,
                 std::vector<Tensor>* outputs) {
    const TensorShape shape = ShapeOf(index);
    if (op_.is_elementwise && !inputs->empty() && shape != inputs->front().shape()) {
      return Mismatch("is elementwise", index, shape, 0, inputs->front());
    }
    Tensor* output = nullptr;
    const auto alias = std::find(aliases.begin(), aliases.end(), index);
    if (alias == aliases.end()) {
      TF_RETURN_IF_ERROR(ctx_.allocate_output(index, shape, &output));
      outputs->push_back(*output);
      return tensorflow::OkStatus();
    }
    const int from = static_cast<int>(alias - aliases.begin());
    Tensor& input = (*inputs)[from];
    if (input.dtype() != ctx_.expected_output_dtype(index) || input.shape() != shape) {
      return Mismatch("shares memory", index, shape, from, input);
    }
    const void* value = input.data();
    input = Tensor();  // its buffer can be taken over only if nobody else refers to it
    TF_RETURN_IF_ERROR(ctx_.forward_input_or_allocate_output({from}, index, shape, &output));
    if (output->data() != value) std::memcpy(output->data(), value, output->TotalBytes());
    input = *output;
    outputs->push_back(*output);
    return tensorflow::OkStatus();
  }

  TensorShape ShapeOf(int output) const {
    if (!op_.is_gradient()) return op_.output_shapes[output];
    return ctx_.input(op_.first_input() + op_.gradient_inputs[output]).shape();
  }

  Status Mismatch(const char* what, int output, const TensorShape& shape, int index,
                  const Tensor& input) const {
    return tensorflow::errors::InvalidArgument(
        "The metadata of the custom operation ", ctx_.op_kernel().name(), " says that it ", what,
        ", but output ", output, " is ",
        tensorflow::DataTypeString(ctx_.expected_output_dtype(output)), shape.DebugString(),
        " and input ", index, " is ", tensorflow::DataTypeString(input.dtype()),
        input.shape().DebugString(), ". Their types and shapes have to be equal.");
  }

  OpKernelContext& ctx_;
  const UserOp& op_;
};

Status CheckOutputShapes(const UserOp& op, int num_outputs) {
  const size_t shapes = op.output_shapes.size();
  if (op.is_gradient() || static_cast<int>(shapes) == num_outputs) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(
      "Expected as many output_shapes as output_types. Received: ", shapes, " and ", num_outputs);
}

std::vector<Tensor> InputsOf(OpKernelContext* ctx) {
  std::vector<Tensor> inputs;
  inputs.reserve(ctx->num_inputs());
  for (int i = 0; i < ctx->num_inputs(); ++i) inputs.push_back(ctx->input(i));
  return inputs;
}

class UserOpKernel : public tensorflow::OpKernel {
 public:
  explicit UserOpKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, LoadUserOp(ctx->def(), &op_));
    OP_REQUIRES_OK(ctx, CheckOutputShapes(op_, ctx->num_outputs()));
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<Tensor> inputs = InputsOf(ctx), outputs;
    Program* program = nullptr;
    if (op_.on_poplar) OP_REQUIRES_OK(ctx, programs_.Find(op_, inputs, &program));
    const std::vector<int32_t>& aliases =
        program == nullptr ? op_.aliased_output : program->program().aliased_output();
    OP_REQUIRES_OK(ctx, OutputMaker(ctx, op_).Make(aliases, &inputs, &outputs));
    if (program != nullptr) {
      const LaunchContext* launch = LaunchContext::From(ctx);
      const int replica = launch == nullptr ? 0 : launch->global_replica();
      OP_REQUIRES_OK(ctx, program->Run(replica, {&inputs, 1}, {&outputs, 1}));
      return;
    }
    try {
      OP_REQUIRES_OK(ctx, op_.on_host ? CallHost(inputs, outputs) : Call(ctx, inputs, outputs));
    } catch (const std::exception& error) {
      ctx->SetStatus(Failed(error.what()));
    } catch (...) {
      ctx->SetStatus(Failed("an exception of an unknown type"));
    }
  }

 private:
  Status Failed(const char* what) const {
    return tensorflow::errors::Internal("The custom operation ", name(), " of ",
                                        op_.library->path(), " failed: ", what);
  }

  Status CallHost(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    std::vector<const void*> data;
    std::vector<uint32_t> elements;
    std::vector<void*> results;
    for (const Tensor& input : inputs) {
      if (input.NumElements() > std::numeric_limits<uint32_t>::max()) {
        return tensorflow::errors::InvalidArgument(
            "The custom operation ", name(), " has an input with ", input.NumElements(),
            " elements; its function takes inputs of less than 2^32 elements.");
      }
      data.push_back(input.data());
      elements.push_back(static_cast<uint32_t>(input.NumElements()));
    }
    for (const Tensor& output : outputs) results.push_back(output.data());
    tensorflow::mutex_lock lock(op_.library->calls());
    if (op_.separate_gradients) {
      reinterpret_cast<HostGradient*>(op_.function)(data, elements, results, op_.attributes, name(),
                                                    op_.InputGradIndex());
    } else {
      reinterpret_cast<HostFunction*>(op_.function)(data, elements, results, op_.attributes,
                                                    name());
    }
    return tensorflow::OkStatus();
  }

  Status Call(OpKernelContext* ctx, const std::vector<Tensor>& inputs,
              const std::vector<Tensor>& outputs) const {
    const CTensors all_inputs(inputs), all_outputs(outputs);
    const LaunchContext* launch = LaunchContext::From(ctx);
    tensorflow_ipu_call call = {};
    call.num_gradients = op_.num_gradients;
    call.gradients = all_inputs.begin();
    call.forward_outputs = all_inputs.begin() + op_.num_gradients;
    call.num_inputs = all_inputs.size() - op_.first_input();
    call.inputs = all_inputs.begin() + op_.first_input();
    call.num_outputs = all_outputs.size();
    call.outputs = all_outputs.begin();
    call.input_grad_index = op_.InputGradIndex();
    call.attributes = op_.attributes.c_str();
    call.debug_prefix = name().c_str();
    call.replica = launch == nullptr ? 0 : launch->replica();
    call.num_replicas = launch == nullptr ? 1 : launch->num_replicas();
    const char* error = reinterpret_cast<tensorflow_ipu_function*>(op_.function)(&call);
    return error == nullptr ? tensorflow::OkStatus() : Failed(error);
  }

  UserOp op_;
  Programs programs_;
};

// A Poplar program in which replicas exchange data: the last one to come runs it for all.
class UserCollectiveKernel : public CollectiveKernel {
 public:
  explicit UserCollectiveKernel(OpKernelConstruction* ctx) : CollectiveKernel(ctx) {
    OP_REQUIRES_OK(ctx, LoadUserOp(ctx->def(), &op_));
    OP_REQUIRES_OK(ctx, CheckOutputShapes(op_, ctx->num_outputs()));
  }

  Status Give(OpKernelContext* member, std::vector<Tensor>* given) const override {
    for (Tensor& input : InputsOf(member)) given->push_back(std::move(input));
    return tensorflow::OkStatus();
  }

  Status Run(Inputs inputs, int /*first*/, Members members) const override {
    // Kernels differ by the replicas that share them. The first one's has the state.
    const auto& owner = static_cast<const UserCollectiveKernel&>(members[0]->op_kernel());
    return owner.RunAll(inputs, members);
  }

 private:
  Status RunAll(Inputs all, Members members) const {
    const size_t each = op_.input_types.size();
    std::vector<std::vector<Tensor>> inputs, outputs(members.size());
    for (size_t m = 0; m < members.size(); ++m) {
      inputs.emplace_back(all.begin() + m * each, all.begin() + (m + 1) * each);
    }
    Program* program = nullptr;
    TF_RETURN_IF_ERROR(programs_.Find(op_, inputs[0], &program));
    const std::vector<int32_t>& aliases = program->program().aliased_output();
    for (size_t m = 0; m < members.size(); ++m) {
      TF_RETURN_IF_ERROR(OutputMaker(members[m], op_).Make(aliases, &inputs[m], &outputs[m]));
    }
    return program->Run(UserProgram::kAllReplicas, inputs, outputs);
  }

  UserOp op_;
  mutable Programs programs_;
};

Status UserOpShapes(InferenceContext* c) {
  int num_gradients;
  TF_RETURN_IF_ERROR(c->GetAttr("num_gradients", &num_gradients));
  if (num_gradients > 0) {
    std::vector<int> inputs;
    TF_RETURN_IF_ERROR(c->GetAttr("gradient_inputs", &inputs));
    for (int i = 0; i < c->num_outputs(); ++i) {
      c->set_output(i, c->input(2 * num_gradients + inputs[i]));
    }
    return tensorflow::OkStatus();
  }
  std::vector<TensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  for (int i = 0; i < c->num_outputs(); ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return tensorflow::OkStatus();
}

}  // namespace

#define USER_OP_TYPES                                                                             \
  "list({half, bfloat16, float, int8, uint8, int16, uint16, int32, uint32, int64, uint64, bool})" \
  " >= 0"

// `library_hash` stands for the contents of the library: the compiler sets it. Anything else there
// stands for what the file has when the kernel is made.
#define USER_OP(name)                               \
  REGISTER_OP(name)                                 \
      .Input("inputs: Tinputs")                     \
      .Output("outputs: output_types")              \
      .Attr("Tinputs: " USER_OP_TYPES)              \
      .Attr("output_types: " USER_OP_TYPES)         \
      .Attr("output_shapes: list(shape) >= 0")      \
      .Attr("library_path: string")                 \
      .Attr("library_hash: string = ''")            \
      .Attr("op_name: string")                      \
      .Attr("attributes: string = ''")              \
      .Attr("gradient_attributes: string = ''")     \
      .Attr("separate_gradients: bool = false")     \
      .Attr("gradient_inputs: list(int) >= 0 = []") \
      .Attr("num_gradients: int >= 0 = 0")          \
      .SetIsStateful()                              \
      .SetShapeFn(UserOpShapes)

USER_OP("IpuCpuUserOperation").Doc("Calls a function of a library on the host.");
// Poplar programs have three attributes more: a kind that Poplar knows by name (poplar/core/
// Embedding.hpp), instead of a library; a file of codelets; "chip tiles replicas" to build for.
#define POPLAR_USER_OP(name) \
  USER_OP(name).Attr("kind: string = ''").Attr("codelets: string = ''").Attr("target: string = ''")

POPLAR_USER_OP("IpuPrecompiledUserOp").Doc("Calls an operation of a precompiled library.");
// The compiler makes it of the other one where the program of the library has an exchange.
POPLAR_USER_OP("IpuPrecompiledUserCollective")
    .Doc("Calls an operation of a precompiled library in which replicas exchange data.");

#undef POPLAR_USER_OP
#undef USER_OP

#define REGISTER_USER_OP_KERNEL(name)                                                          \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU), UserOpKernel);            \
  REGISTER_KERNEL_BUILDER(Name(name).Device("IPU").HostMemory("inputs").HostMemory("outputs"), \
                          UserOpKernel)

REGISTER_USER_OP_KERNEL("IpuCpuUserOperation");
REGISTER_USER_OP_KERNEL("IpuPrecompiledUserOp");
REGISTER_KERNEL_BUILDER(Name("IpuPrecompiledUserCollective").Device(tensorflow::DEVICE_CPU),
                        UserCollectiveKernel);

#undef REGISTER_USER_OP_KERNEL

}  // namespace tensorflow_ipu
