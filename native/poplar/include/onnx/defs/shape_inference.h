// Inference of the types and shapes of nodes. Libraries see types as opaque, and copy them.
#ifndef onnx_defs_shape_inference_h
#define onnx_defs_shape_inference_h

#include <popart/detail/stl.hpp>
#include <popart/tensorinfo.hpp>

namespace ONNX_NAMESPACE {

/// A node while its types are inferred.
class InferenceContext {
 public:
  virtual ~InferenceContext();
  virtual size_t getNumInputs() const = 0;
  virtual size_t getNumOutputs() const = 0;
  virtual const popart::TensorInfo &inputInfo(size_t index) const = 0;
  virtual popart::TensorInfo &outputInfo(size_t index) = 0;
};

using InferenceFunction = std::function<void(InferenceContext &)>;

void propagateElemTypeFromInputToOutput(InferenceContext &context, size_t input, size_t output);
void propagateShapeFromInputToOutput(InferenceContext &context, size_t input, size_t output);
bool hasInputShape(InferenceContext &context, size_t input);
bool hasNInputShapes(InferenceContext &context, size_t count);

/// The output has the type and the shape of the first input.
inline void propagateShapeAndTypeFromFirstInput(InferenceContext &context) {
  propagateElemTypeFromInputToOutput(context, 0, 0);
  if (hasNInputShapes(context, 1)) propagateShapeFromInputToOutput(context, 0, 0);
}

}  // namespace ONNX_NAMESPACE

#endif  // onnx_defs_shape_inference_h
