// An operation on the host, for ipu.custom_ops.cpu_user_operation: x times a factor.
//
// The factor comes as text, in `attributes`. Tensors are float32: the function gets no types.
#include <cstdint>
#include <string>
#include <vector>

namespace {

void Multiply(const void* from, uint32_t elements, float factor, void* to) {
  const float* x = static_cast<const float*>(from);
  float* y = static_cast<float*>(to);
  for (uint32_t i = 0; i < elements; ++i) y[i] = factor * x[i];
}

}  // namespace

extern "C" void Scale(const std::vector<const void*>& inputs,
                      const std::vector<uint32_t>& numbers_of_elements, std::vector<void*>& outputs,
                      const std::string& attributes, const std::string& /*name*/) {
  Multiply(inputs[0], numbers_of_elements[0], std::stof(attributes), outputs[0]);
}

// Inputs are the gradient of y, then y, then x.
extern "C" void Scale_grad(const std::vector<const void*>& inputs,
                           const std::vector<uint32_t>& numbers_of_elements,
                           std::vector<void*>& outputs, const std::string& attributes,
                           const std::string& /*name*/) {
  Multiply(inputs[0], numbers_of_elements[0], std::stof(attributes), outputs[0]);
}
