#include "plugin/abstract_compute.h"

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/abstract_values.h"
#include "tensorflow/core/common_runtime/threadpool_device.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/public/session_options.h"
#include "tensorflow/core/public/version.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DataType;
using tensorflow::Device;
using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;
using Names = std::unordered_set<std::string>;

// An op that makes so many bytes of inputs that are no larger than a seed and a shape is taken for
// a part of an initializer.
constexpr int64_t kLargeBytes = 256 << 10;
constexpr int64_t kSmallInputs = 64 << 10;

constexpr char kFetch[] = "_retval_";

bool IsIn(const Names* names, const std::string& op) { return names->count(op) > 0; }

// Ops that hand a tensor on or look at its shape: their kernels touch no elements.
bool HandsOn(const std::string& op) {
  static const auto* const names = new Names{"Identity",
                                             "IdentityN",
                                             "RefIdentity",
                                             "Enter",
                                             "RefEnter",
                                             "Exit",
                                             "RefExit",
                                             "Merge",
                                             "RefMerge",
                                             "NextIteration",
                                             "RefNextIteration",
                                             "Reshape",
                                             "ExpandDims",
                                             "Squeeze",
                                             "StopGradient",
                                             "PreventGradient",
                                             "EnsureShape",
                                             "PlaceholderWithDefault",
                                             "Shape",
                                             "ShapeN",
                                             "Size",
                                             "Rank",
                                             "VariableShape",
                                             "_Send",
                                             "_Recv",
                                             "_HostSend",
                                             "_HostRecv",
                                             "_Arg",
                                             "_DeviceArg",
                                             "_DeviceRetval",
                                             "VarHandleOp",
                                             "AssignVariableOp",
                                             "ReadVariableOp",
                                             "_ReadVariablesOp",
                                             "VarIsInitializedOp",
                                             "IsVariableInitialized",
                                             "DestroyResourceOp",
                                             "ControlTrigger",
                                             "NoOp"};
  return IsIn(names, op) || op.rfind("Ipu", 0) == 0;
}

// Ops with state that make tensors of random numbers, or of nothing.
bool IsInitializer(const std::string& op) {
  static const auto* const names = new Names{"RandomUniform",
                                             "RandomUniformInt",
                                             "RandomStandardNormal",
                                             "TruncatedNormal",
                                             "ParameterizedTruncatedNormal",
                                             "RandomGamma",
                                             "RandomPoisson",
                                             "RandomPoissonV2",
                                             "StatefulUniform",
                                             "StatefulStandardNormal",
                                             "StatefulStandardNormalV2",
                                             "StatefulTruncatedNormal",
                                             "Empty"};
  return IsIn(names, op);
}

// Ops with the values of the program itself.
bool HasValues(const std::string& op) {
  static const auto* const names =
      new Names{"Const", "_HostConst", "ImmutableConst", "Placeholder"};
  return IsIn(names, op);
}

// Ops that read and write checkpoints. A process that only plans writes none.
bool WritesCheckpoint(const std::string& op) {
  static const auto* const names = new Names{"SaveV2", "Save", "SaveSlices", "MergeV2Checkpoints"};
  return IsIn(names, op);
}

// An evaluation of one op.
class Evaluation {
 public:
  Evaluation(OpKernel* kernel, OpKernelContext* ctx)
      : kernel_(kernel), ctx_(ctx), op_(kernel->type_string()) {}

  bool Run() {
    if (WritesCheckpoint(op_)) return true;
    if (op_ == "Switch" || op_ == "RefSwitch") return NeedsIfAbstract(1);
    if (op_ == "LoopCond") return NeedsIfAbstract(0);
    if (op_ == "_Retval") return IsFetched() && NeedsIfAbstract(0);
    if (op_ == "Assign") return AssignReference();
    if (HandsOn(op_) || HasValues(op_)) return false;
    if (tensorflow::OpRegistry::Global()->LookUp(op_, &registered_).ok() == false) return false;
    const bool abstract = FindInputs();
    if (!abstract && !MayBeInitializer()) return false;
    return abstract ? Abstract() : Initialize();
  }

 private:
  bool NeedsIfAbstract(int input) {
    if (!ctx_->has_input(input) || ctx_->input_is_ref(input)) return false;
    if (!AbstractValues::Has(ctx_->input(input))) return false;
    return Need();
  }

  // Of the ops that hand results on, those of a session's step have this name.
  bool IsFetched() const { return kernel_->name().rfind(kFetch, 0) == 0; }

  bool Need() {
    const std::string& name = kernel_->name();
    ctx_->SetStatus(AbstractValues::Need(IsFetched() ? name.substr(sizeof(kFetch) - 1) : name));
    return true;
  }

  // A variable of TensorFlow 1 takes the tensor instead of its elements.
  bool AssignReference() {
    if (!AbstractValues::Has(ctx_->input(1))) return false;
    ctx_->replace_ref_input(0, ctx_->input(1), /*lock_held=*/false);
    ctx_->forward_ref_input_to_ref_output(0, 0);
    return true;
  }

  // Looks at all inputs. Returns whether one is abstract, or a variable with such a value.
  bool FindInputs() {
    bool abstract = false;
    variables_.resize(ctx_->num_inputs());
    for (int i = 0; i < ctx_->num_inputs(); ++i) {
      if (!ctx_->has_input(i)) continue;
      if (ctx_->input_is_ref(i)) {
        abstract = abstract || AbstractValues::Has(ctx_->mutable_input(i, false));
        continue;
      }
      const Tensor& tensor = ctx_->input(i);
      if (tensor.dtype() == tensorflow::DT_RESOURCE) {
        abstract = FindVariable(i) || abstract;
      } else {
        abstract = AbstractValues::Has(tensor) || abstract;
        bytes_ += static_cast<int64_t>(tensor.TotalBytes());
      }
    }
    return abstract;
  }

  bool FindVariable(int input) {
    const Tensor& tensor = ctx_->input(input);
    if (tensor.NumElements() != 1) return false;
    const auto& handle = tensor.flat<tensorflow::ResourceHandle>()(0);
    if (handle.hash_code() != tensorflow::TypeIndex::Make<Var>().hash_code()) return false;
    if (!tensorflow::LookupResource(ctx_, handle, &variables_[input]).ok()) return false;
    tensorflow::tf_shared_lock lock(*variables_[input]->mu());
    return AbstractValues::Has(*variables_[input]->tensor());
  }

  bool MayBeInitializer() const {
    const bool pure = !registered_->op_def.is_stateful();
    return bytes_ <= kSmallInputs && ctx_->num_outputs() == 1 && (pure || IsInitializer(op_)) &&
           tensorflow::DataTypeCanUseMemcpy(kernel_->output_type(0));
  }

  bool Initialize() {
    std::vector<tensorflow::TensorShape> shapes;
    if (!Infer(&shapes)) return false;
    const int64_t size = tensorflow::DataTypeSize(kernel_->output_type(0));
    if (shapes[0].num_elements() * size < kLargeBytes) return false;
    SetOutputs(shapes);
    return true;
  }

  // Evaluates an op with an abstract input.
  bool Abstract() {
    if (ctx_->num_outputs() == 0) {
      MakeVariablesAbstract();
      return true;
    }
    for (int i = 0; i < ctx_->num_outputs(); ++i) {
      const DataType type = kernel_->output_type(i);
      // Datasets and lists only hold their tensors.
      if (type == tensorflow::DT_VARIANT || type == tensorflow::DT_RESOURCE) return false;
      if (!tensorflow::DataTypeCanUseMemcpy(type) || tensorflow::IsRefType(type)) return Need();
    }
    std::vector<tensorflow::TensorShape> shapes;
    if (!Infer(&shapes)) return Need();
    SetOutputs(shapes);
    return true;
  }

  // What an update would write is as little known as its operand.
  void MakeVariablesAbstract() {
    for (const RefCountPtr<Var>& variable : variables_) {
      if (variable == nullptr) continue;
      tensorflow::mutex_lock lock(*variable->mu());
      Tensor* value = variable->tensor();
      if (!value->IsInitialized() || AbstractValues::Has(*value)) continue;
      if (!tensorflow::DataTypeCanUseMemcpy(value->dtype())) continue;
      *value = AbstractValues::Make(value->dtype(), value->shape());
    }
  }

  void SetOutputs(const std::vector<tensorflow::TensorShape>& shapes) {
    for (int i = 0; i < ctx_->num_outputs(); ++i) {
      ctx_->set_output(i, AbstractValues::Make(kernel_->output_type(i), shapes[i]));
    }
  }

  // Infers the shapes of all outputs. Returns false if one is not known.
  bool Infer(std::vector<tensorflow::TensorShape>* shapes) {
    if (registered_->shape_inference_fn == nullptr) return false;
    using ShapeAndTypes = std::vector<std::pair<PartialTensorShape, DataType>>;
    std::vector<PartialTensorShape> inputs;
    std::vector<const Tensor*> values(ctx_->num_inputs(), nullptr);
    std::vector<std::unique_ptr<ShapeAndTypes>> handles(ctx_->num_inputs());
    for (int i = 0; i < ctx_->num_inputs(); ++i) {
      if (!ctx_->has_input(i) || ctx_->input_is_ref(i)) {
        inputs.emplace_back();
        continue;
      }
      const Tensor& tensor = ctx_->input(i);
      inputs.emplace_back(tensor.shape());
      if (variables_[i] != nullptr) {
        tensorflow::tf_shared_lock lock(*variables_[i]->mu());
        const Tensor* value = variables_[i]->tensor();
        handles[i] = std::make_unique<ShapeAndTypes>();
        handles[i]->emplace_back(PartialTensorShape(value->shape()), value->dtype());
      } else if (!AbstractValues::Has(tensor)) {
        values[i] = &tensor;
      }
    }
    tensorflow::shape_inference::InferenceContext context(
        TF_GRAPH_DEF_VERSION, tensorflow::AttrSlice(kernel_->def()), registered_->op_def, inputs,
        values, {}, handles);
    if (!context.construction_status().ok() || !context.Run(registered_->shape_inference_fn).ok()) {
      return false;
    }
    for (int i = 0; i < context.num_outputs(); ++i) {
      const auto shape = context.output(i);
      if (!context.FullyDefined(shape)) return false;
      tensorflow::TensorShape known;
      for (int d = 0; d < context.Rank(shape); ++d) {
        known.AddDim(context.Value(context.Dim(shape, d)));
      }
      shapes->push_back(known);
    }
    return static_cast<int>(shapes->size()) == ctx_->num_outputs();
  }

  OpKernel* const kernel_;
  OpKernelContext* const ctx_;
  const std::string& op_;
  const tensorflow::OpRegistrationData* registered_ = nullptr;
  std::vector<RefCountPtr<Var>> variables_;  // by input
  int64_t bytes_ = 0;                        // of all inputs
};

// Ops with functions, whose predicate decides what runs.
bool IsConditional(const std::string& op) {
  static const auto* const names = new Names{"If", "StatelessIf", "Case", "StatelessCase"};
  return IsIn(names, op);
}

class AbstractCpu : public tensorflow::ThreadPoolDevice {
 public:
  using ThreadPoolDevice::ThreadPoolDevice;

  void Compute(OpKernel* kernel, OpKernelContext* ctx) override {
    if (!ComputeAbstractly(kernel, ctx)) ThreadPoolDevice::Compute(kernel, ctx);
  }

  void ComputeAsync(tensorflow::AsyncOpKernel* kernel, OpKernelContext* ctx,
                    tensorflow::AsyncOpKernel::DoneCallback done) override {
    if (IsConditional(kernel->type_string()) && AbstractValues::Has(ctx->input(0))) {
      ctx->SetStatus(AbstractValues::Need(kernel->name()));
      return done();
    }
    ThreadPoolDevice::ComputeAsync(kernel, ctx, std::move(done));
  }
};

// Above TensorFlow's own, whose priorities are 60 and 70.
constexpr int kPriority = 80;
constexpr int kMemoryLimit = 256 << 20;

class AbstractCpuFactory : public tensorflow::DeviceFactory {
 public:
  Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    devices->push_back("/physical_device:CPU:0");
    return tensorflow::OkStatus();
  }

  Status CreateDevices(const tensorflow::SessionOptions& options, const std::string& prefix,
                       std::vector<std::unique_ptr<Device>>* devices) override {
    const auto& counts = options.config.device_count();
    const auto found = counts.find("CPU");
    const int count = found == counts.end() ? 1 : found->second;
    for (int i = 0; i < count; ++i) {
      devices->push_back(std::make_unique<AbstractCpu>(
          options, tensorflow::strings::StrCat(prefix, "/device:CPU:", i),
          tensorflow::Bytes(kMemoryLimit), tensorflow::DeviceLocality(),
          tensorflow::cpu_allocator()));
    }
    return tensorflow::OkStatus();
  }
};

}  // namespace

bool ComputeAbstractly(OpKernel* kernel, OpKernelContext* ctx) {
  return Evaluation(kernel, ctx).Run();
}

void RegisterAbstractCpu() {
  tensorflow::DeviceFactory::Register("CPU", std::make_unique<AbstractCpuFactory>(), kPriority,
                                      /*is_pluggable_device=*/false);
}

}  // namespace tensorflow_ipu
