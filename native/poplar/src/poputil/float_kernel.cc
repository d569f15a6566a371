#include "poputil/float_kernel.h"

#include <utility>

#include "poputil/half_arrays.h"

namespace poputil {
namespace {

using poplar::core::KernelSpec;
using poplar::core::KernelTensor;

// Buffers of float for the operands of half, by position; empty for others.
std::vector<std::vector<float>> Buffers(const std::vector<KernelTensor>& tensors) {
  std::vector<std::vector<float>> buffers;
  for (const KernelTensor& tensor : tensors) {
    buffers.emplace_back(tensor.type == poplar::HALF ? KernelCall::Product(tensor.shape) : 0);
  }
  return buffers;
}

class FloatKernel : public poplar::core::Kernel {
 public:
  FloatKernel(const KernelSpec& spec, FloatFunction function)
      : spec_(spec),
        attributes_(spec.parameters),
        function_(function),
        inputs_(Buffers(spec.inputs)),
        outputs_(Buffers(spec.outputs)) {}

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    KernelCall call{spec_, attributes_, inputs, outputs};
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs_[i].empty()) continue;
      FloatsOfHalves(static_cast<const uint16_t*>(inputs[i]), inputs_[i].size(), inputs_[i].data());
      call.inputs[i] = inputs_[i].data();
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs_[i].empty()) continue;
      FloatsOfHalves(static_cast<const uint16_t*>(outputs[i]), outputs_[i].size(),
                     outputs_[i].data());
      call.outputs[i] = outputs_[i].data();
    }
    function_(call);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs_[i].empty()) continue;
      HalvesOfFloats(outputs_[i].data(), outputs_[i].size(), static_cast<uint16_t*>(outputs[i]));
    }
  }

 private:
  const KernelSpec spec_;
  const Attributes attributes_;
  const FloatFunction function_;
  std::vector<std::vector<float>> inputs_, outputs_;
};

}  // namespace

FloatKernelRegistration::FloatKernelRegistration(const std::string& name, FloatFunction function) {
  poplar::core::KernelRegistration(name, [function](const KernelSpec& spec) {
    return std::unique_ptr<poplar::core::Kernel>(new FloatKernel(spec, function));
  });
}

}  // namespace poputil
