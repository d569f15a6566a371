#include "plugin/device.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/abstract_values.h"
#include "engine/device_state.h"
#include "plugin/abstract_compute.h"
#include "tensorflow/core/common_runtime/local_device.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorflow_ipu {

using tensorflow::Device;
using tensorflow::Status;
using tensorflow::StatusCallback;
using tensorflow::Tensor;

const char* const kIpuDeviceType = "IPU";

namespace {

// Below the CPU's 60 and 70: an op that names no device never lands on the IPU.
constexpr int kPriority = 40;

// The device shares the host's memory, so a copy is another reference to the buffer.
class SharedMemoryContext : public tensorflow::DeviceContext {
 public:
  void CopyCPUTensorToDevice(const Tensor* cpu_tensor, Device*, Tensor* device_tensor,
                             StatusCallback done, bool) const override {
    *device_tensor = *cpu_tensor;
    done(tensorflow::OkStatus());
  }

  void CopyDeviceTensorToCPU(const Tensor* device_tensor, tensorflow::StringPiece, Device*,
                             Tensor* cpu_tensor, StatusCallback done) override {
    *cpu_tensor = *device_tensor;
    done(tensorflow::OkStatus());
  }

  void CopyTensorInSameDevice(const Tensor* input, Device*, Tensor* output,
                              StatusCallback done) const override {
    *output = *input;
    done(tensorflow::OkStatus());
  }
};

class IpuDevice : public tensorflow::LocalDevice {
 public:
  IpuDevice(const tensorflow::SessionOptions& options,
            const tensorflow::DeviceAttributes& attributes)
      : tensorflow::LocalDevice(options, attributes), context_(new SharedMemoryContext) {}

  ~IpuDevice() override { context_->Unref(); }

  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override {
    return tensorflow::cpu_allocator();
  }

  Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                             const tensorflow::AllocatorAttributes, Tensor* tensor) override {
    Tensor parsed;
    if (!parsed.FromProto(tensorflow::cpu_allocator(), proto)) {
      return tensorflow::errors::InvalidArgument("Cannot parse tensor from proto: ",
                                                 proto.ShortDebugString().substr(0, 200));
    }
    *tensor = std::move(parsed);
    return tensorflow::OkStatus();
  }

  void CopyTensorInSameDevice(const Tensor* input, Tensor* output, const tensorflow::DeviceContext*,
                              StatusCallback done) override {
    *output = *input;
    done(tensorflow::OkStatus());
  }

  Status Sync() override { return tensorflow::OkStatus(); }

  void Compute(tensorflow::OpKernel* kernel, tensorflow::OpKernelContext* ctx) override {
    if (AbstractValues::Enabled() && ComputeAbstractly(kernel, ctx)) return;
    kernel->Compute(ctx);
  }

  Status TryGetDeviceContext(tensorflow::DeviceContext** context) override {
    context_->Ref();
    *context = context_;
    return tensorflow::OkStatus();
  }

 private:
  SharedMemoryContext* const context_;
};

class IpuDeviceFactory : public tensorflow::DeviceFactory {
 public:
  // Lists devices only once a program uses IPUs: Keras decides by this list whether to use XLA.
  Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    if (!Attachment::listed()) return tensorflow::OkStatus();
    for (int i = 0; i < Attachment::num_devices(); ++i) {
      devices->push_back(tensorflow::strings::StrCat("/physical_device:", kIpuDeviceType, ":", i));
    }
    return tensorflow::OkStatus();
  }

  Status GetDeviceDetails(int, std::unordered_map<std::string, std::string>* details) override {
    (*details)["device_name"] = "simulated Graphcore IPU";
    return tensorflow::OkStatus();
  }

  Status CreateDevices(const tensorflow::SessionOptions& options, const std::string& name_prefix,
                       std::vector<std::unique_ptr<Device>>* devices) override {
    for (int i = 0; i < kMaxDevices; ++i) {
      const std::string name =
          tensorflow::strings::StrCat(name_prefix, "/device:", kIpuDeviceType, ":", i);
      devices->push_back(std::make_unique<IpuDevice>(
          options, Device::BuildDeviceAttributes(
                       name, tensorflow::DeviceType(kIpuDeviceType), tensorflow::Bytes(256 << 20),
                       tensorflow::DeviceLocality(), "simulated Graphcore IPU")));
    }
    return tensorflow::OkStatus();
  }
};

}  // namespace

void RegisterDeviceFactory() {
  tensorflow::DeviceFactory::Register(kIpuDeviceType, std::make_unique<IpuDeviceFactory>(),
                                      kPriority, /*is_pluggable_device=*/true);
}

}  // namespace tensorflow_ipu
