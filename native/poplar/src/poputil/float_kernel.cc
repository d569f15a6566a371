#include "poputil/float_kernel.h"

#include <cstdint>
#include <utility>

#include "poplar/core/Halves.hpp"

namespace poputil {
namespace {

using poplar::core::KernelSpec;
using poplar::core::KernelTensor;

constexpr size_t kGrain = 1 << 16;  // elements of a part for one core

void Read(const void* halves, std::vector<float>* floats) {
  const uint16_t* from = static_cast<const uint16_t*>(halves);
  poplar::core::parallelFor(floats->size(), kGrain, [&](size_t begin, size_t end) {
    poplar::core::halvesToFloats(from + begin, floats->data() + begin, end - begin);
  });
}

void Write(const std::vector<float>& floats, void* halves) {
  uint16_t* to = static_cast<uint16_t*>(halves);
  poplar::core::parallelFor(floats.size(), kGrain, [&](size_t begin, size_t end) {
    poplar::core::floatsToHalves(floats.data() + begin, to + begin, end - begin);
  });
}

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
      Read(inputs[i], &inputs_[i]);
      call.inputs[i] = inputs_[i].data();
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs_[i].empty()) continue;
      Read(outputs[i], &outputs_[i]);
      call.outputs[i] = outputs_[i].data();
    }
    function_(call);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs_[i].empty()) Write(outputs_[i], outputs[i]);
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
