#include "kernels/mirror.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kernels/support.h"
#include "plugin/device.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/logging.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::DataType;
using tensorflow::KernelDef;
using tensorflow::OpDef;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

// Forwards to a CPU kernel. The CPU kernel itself cannot be returned from the factory: its memory
// types are the CPU's, and TensorFlow compares them with those registered for the IPU.
class MirroredKernel : public OpKernel {
 public:
  MirroredKernel(OpKernelConstruction* ctx, std::unique_ptr<OpKernel> kernel)
      : OpKernel(ctx), kernel_(std::move(kernel)) {}

  void Compute(OpKernelContext* ctx) override { kernel_->Compute(ctx); }
  bool IsExpensive() override { return kernel_->IsExpensive(); }
  const tensorflow::Tensor* const_tensor() const override { return kernel_->const_tensor(); }

 private:
  const std::unique_ptr<OpKernel> kernel_;
};

// The same for kernels that wait (queues, iterators): a synchronous wrapper would hold a thread
// of the pool that the awaited kernel needs.
class MirroredAsyncKernel : public AsyncOpKernel {
 public:
  MirroredAsyncKernel(OpKernelConstruction* ctx, std::unique_ptr<OpKernel> kernel)
      : AsyncOpKernel(ctx), kernel_(std::move(kernel)) {}

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    kernel_->AsAsync()->ComputeAsync(ctx, std::move(done));
  }
  bool IsExpensive() override { return kernel_->IsExpensive(); }

 private:
  const std::unique_ptr<OpKernel> kernel_;
};

// Stands for an op that only checks values: passes its first input on, if it has an output.
class DroppedCheck : public OpKernel {
 public:
  explicit DroppedCheck(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    if (num_outputs() > 0) ctx->set_output(0, ctx->input(0));
  }
};

// Lets an op of ours be placed on an IPU, where it becomes part of a program
// (plugin/placed_ops.cc). What stays outside of programs ends here.
OpKernel* RefuseOutsideProgram(OpKernelConstruction* ctx) {
  ctx->SetStatus(tensorflow::errors::InvalidArgument(
      ctx->def().name(), " (", ctx->def().op(), ") can only run as part of an IPU program. Call ",
      "what makes it in a function for ipu_compiler.compile, and not in a loop or conditional of ",
      "TensorFlow 1 that is outside of it."));
  return nullptr;
}

// The CPU kernel of the node that `ctx` constructs a kernel for.
tensorflow::Status CreateCpuKernel(OpKernelConstruction* ctx, std::unique_ptr<OpKernel>* kernel) {
  std::shared_ptr<const tensorflow::NodeProperties> props;
  TF_RETURN_IF_ERROR(tensorflow::NodeProperties::CreateFromNodeDef(
      ctx->def(), tensorflow::OpRegistry::Global(), &props));
  OpKernel* raw = nullptr;
  TF_RETURN_IF_ERROR(tensorflow::CreateOpKernel(
      tensorflow::DeviceType(tensorflow::DEVICE_CPU), ctx->device(),
      ctx->device()->GetAllocator(tensorflow::AllocatorAttributes()), ctx->function_library(),
      ctx->resource_manager(), props, ctx->graph_def_version(), &raw));
  kernel->reset(raw);
  return tensorflow::OkStatus();
}

OpKernel* CreateMirrored(OpKernelConstruction* ctx) {
  std::unique_ptr<OpKernel> kernel;
  const tensorflow::Status status = CreateCpuKernel(ctx, &kernel);
  if (!status.ok()) {
    ctx->SetStatus(status);
    return nullptr;
  }
  if (kernel->AsAsync() != nullptr) return new MirroredAsyncKernel(ctx, std::move(kernel));
  return new MirroredKernel(ctx, std::move(kernel));
}

OpKernel* CreateDroppedCheck(OpKernelConstruction* ctx) {
  // Once in a process: which checks are the user's own is not known here.
  static std::once_flag said;
  std::call_once(said, [ctx] {
    LOG(WARNING) << "IPUs have no checks of values: " << ctx->def().name() << " ("
                 << ctx->def().op() << ") does nothing, and so do all others that are placed on an "
                 << "IPU. To run a check, place it with tf.device(\"/device:CPU:0\").";
  });
  return new DroppedCheck(ctx);
}

KernelDef::AttrConstraint* FindConstraint(KernelDef* kernel, const std::string& attr) {
  for (KernelDef::AttrConstraint& constraint : *kernel->mutable_constraint()) {
    if (constraint.name() == attr) return &constraint;
  }
  return nullptr;
}

// Every type that a tensor on the IPU can have.
std::vector<DataType> SupportedTypes() {
  std::vector<DataType> types;
  for (int i = tensorflow::DataType_MIN + 1; i <= tensorflow::DataType_MAX; ++i) {
    if (!tensorflow::DataType_IsValid(i)) continue;
    const auto type = static_cast<DataType>(i);
    if (!tensorflow::IsRefType(type) && !IsUnsupportedType(type)) types.push_back(type);
  }
  return types;
}

// Takes the types that the IPU lacks out of the kernel's constraints. False when none is left.
bool RestrictTypes(const OpDef& op, KernelDef* kernel) {
  static const std::vector<DataType>* const supported = new std::vector<DataType>(SupportedTypes());
  for (const OpDef::AttrDef& attr : op.attr()) {
    if (attr.type() != "type") continue;
    KernelDef::AttrConstraint* constraint = FindConstraint(kernel, attr.name());
    std::vector<DataType> allowed;
    if (constraint == nullptr) {
      constraint = kernel->add_constraint();
      constraint->set_name(attr.name());
      allowed = *supported;
    } else {
      for (int type : constraint->allowed_values().list().type()) {
        if (!IsUnsupportedType(static_cast<DataType>(type))) {
          allowed.push_back(static_cast<DataType>(type));
        }
      }
    }
    auto* list = constraint->mutable_allowed_values()->mutable_list();
    list->clear_type();
    for (DataType type : allowed) list->add_type(type);
    if (allowed.empty()) return false;
  }
  return true;
}

// Everything lives in host memory: rules by type would make memory types differ along the edges
// of a loop, which the executor rejects.
void KeepInHostMemory(const OpDef& op, KernelDef* kernel) {
  kernel->clear_host_memory_arg();
  for (const auto& arg : op.input_arg()) kernel->add_host_memory_arg(arg.name());
  for (const auto& arg : op.output_arg()) kernel->add_host_memory_arg(arg.name());
}

bool IsOwn(const std::string& op) { return op.rfind("Ipu", 0) == 0; }

// Transfers between devices have kernels of their own on every device; XLA has no IPU backend;
// our own ops for the host have a kernel for the device where they belong.
bool IsMirrored(const std::string& op) {
  static const auto* excluded =
      new std::unordered_set<std::string>{"_Send",     "_Recv",       "_HostSend", "_HostRecv",
                                          "XlaLaunch", "_XlaCompile", "_XlaRun",   "_XlaMerge"};
  return excluded->count(op) == 0 && !IsOwnHostOp(op) && !IsUnsupportedOp(op);
}

void Mirror(const KernelDef& original) {
  const OpDef* op = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(original.op(), &op).ok()) return;
  auto kernel = std::make_unique<KernelDef>(original);
  kernel->set_device_type(kIpuDeviceType);
  if (!RestrictTypes(*op, kernel.get())) return;
  KeepInHostMemory(*op, kernel.get());
  const std::string op_name = original.op();
  // The registrar takes ownership of the definition.
  auto* const create = IsOwn(op_name)            ? RefuseOutsideProgram
                       : IsDroppedCheck(op_name) ? CreateDroppedCheck
                                                 : CreateMirrored;
  tensorflow::kernel_factory::OpKernelRegistrar(kernel.release(), op_name, create);
}

}  // namespace

void RegisterMirroredKernels() {
  const tensorflow::KernelList kernels = tensorflow::GetAllRegisteredKernels();
  std::unordered_set<std::string> on_cpu;
  std::unordered_set<std::string> on_ipu;
  for (const KernelDef& kernel : kernels.kernel()) {
    if (kernel.device_type() == tensorflow::DEVICE_CPU) on_cpu.insert(kernel.op());
    if (kernel.device_type() == kIpuDeviceType) on_ipu.insert(kernel.op());
  }
  for (const KernelDef& kernel : kernels.kernel()) {
    const bool cpu = kernel.device_type() == tensorflow::DEVICE_CPU;
    const bool fallback =
        kernel.device_type() == tensorflow::DEVICE_DEFAULT && on_cpu.count(kernel.op()) == 0;
    const bool mirrored = IsMirrored(kernel.op()) && on_ipu.count(kernel.op()) == 0;
    if ((cpu || fallback) && mirrored) Mirror(kernel);
  }
}

}  // namespace tensorflow_ipu
