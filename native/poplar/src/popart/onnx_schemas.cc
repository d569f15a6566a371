// Schemas that libraries register, as functions of the registry of shapes.
#include <string>

#include "onnx/defs/schema.h"
#include "popart/shapeinference.hpp"

namespace ONNX_NAMESPACE {
namespace {

// A node of the builder, as a schema sees it.
class Context : public InferenceContext {
 public:
  explicit Context(popart::ShapeInferenceContext& context) : context_(context) {}
  size_t getNumInputs() const override { return static_cast<size_t>(context_.getNumInputs()); }
  size_t getNumOutputs() const override { return static_cast<size_t>(context_.getNumOutputs()); }
  const popart::TensorInfo& inputInfo(size_t index) const override {
    return context_.inInfo(static_cast<int>(index));
  }
  popart::TensorInfo& outputInfo(size_t index) override {
    return context_.outInfo(static_cast<int>(index));
  }

 private:
  popart::ShapeInferenceContext& context_;
};

}  // namespace

InferenceContext::~InferenceContext() = default;

void propagateElemTypeFromInputToOutput(InferenceContext& context, size_t input, size_t output) {
  context.outputInfo(output).set(context.inputInfo(input).dataType());
}
void propagateShapeFromInputToOutput(InferenceContext& context, size_t input, size_t output) {
  const popart::TensorInfo& info = context.inputInfo(input);
  popart::TensorInfo& result = context.outputInfo(output);
  result.set(result.isSet() ? result.dataType() : info.dataType(), info.shape());
}
bool hasInputShape(InferenceContext& context, size_t input) {
  return input < context.getNumInputs() && context.inputInfo(input).isSet();
}
bool hasNInputShapes(InferenceContext& context, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!hasInputShape(context, i)) return false;
  }
  return true;
}

OpSchemaRegistry::DomainToVersionRange& OpSchemaRegistry::DomainToVersionRange::Instance() {
  static DomainToVersionRange instance;
  return instance;
}
void OpSchemaRegistry::DomainToVersionRange::AddDomainToVersion(const std::string& domain,
                                                                int minimum, int maximum, int) {
  map_[domain] = {minimum, maximum};
}

void RegisterSchema(OpSchema schema, int, bool) {
  const InferenceFunction inference = schema.GetTypeAndShapeInferenceFunction();
  if (!inference) return;
  const popart::OperatorIdentifier opid(schema.domain(), schema.Name(),
                                        static_cast<popart::OpVersion>(schema.SinceVersion()));
  popart::RegisterShapeInferenceFunction(opid, [inference](popart::ShapeInferenceContext& context) {
    Context node(context);
    inference(node);
  });
}

}  // namespace ONNX_NAMESPACE
