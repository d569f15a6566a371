// Shapes and types of the outputs of nodes, for the builder.
#ifndef popart_shapeinference_hpp
#define popart_shapeinference_hpp

#include <popart/attributes.hpp>
#include <popart/names.hpp>
#include <popart/operatoridentifier.hpp>
#include <popart/tensorinfo.hpp>

namespace popart {

/// A node while shapes are inferred.
class ShapeInferenceContext {
 public:
  ShapeInferenceContext(const std::map<int, TensorInfo> &inputs, const Attributes &attributes,
                        int outputs)
      : inputs_(inputs), attributes_(attributes), outputCount_(outputs) {}

  const TensorInfo &inInfo(int index) const;
  const Shape &inShape(int index) const { return inInfo(index).shape(); }
  DataType inType(int index) const { return inInfo(index).dataType(); }
  TensorInfo &outInfo(int index) { return outputs_[index]; }
  const Shape &outShape(int index) { return outInfo(index).shape(); }
  const Attributes &getAttributes() const { return attributes_; }
  bool hasAttribute(const std::string &key) const { return attributes_.hasAttribute(key); }
  template <typename T>
  T getAttribute(const std::string &key) const {
    return attributes_.getAttribute<T>(key);
  }
  template <typename T>
  T getAttribute(const std::string &key, const T &defaultValue) const {
    return attributes_.getAttribute<T>(key, defaultValue);
  }
  int getNumInputs() const { return static_cast<int>(inputs_.size()); }
  int getNumOutputs() const { return outputCount_; }
  bool hasInput(int index) const { return inputs_.count(index) != 0; }
  const std::map<int, TensorInfo> &getOutputs() const { return outputs_; }

 private:
  std::map<int, TensorInfo> inputs_;
  std::map<int, TensorInfo> outputs_;
  Attributes attributes_;
  int outputCount_;
};

using ShapeInferenceFunction = std::function<void(ShapeInferenceContext &)>;

/// Registers the function of an op: a static object of the library that has it.
class RegisterShapeInferenceFunction {
 public:
  RegisterShapeInferenceFunction(const OperatorIdentifier &opid, ShapeInferenceFunction function);
};

inline void propagateElemTypeFromInputToOutput(ShapeInferenceContext &context, int input,
                                               int output) {
  context.outInfo(output).set(context.inType(input));
}
inline void propagateShapeFromInputToOutput(ShapeInferenceContext &context, int input, int output) {
  const TensorInfo &info = context.inInfo(input);
  const bool isSet = context.outInfo(output).isSet();
  context.outInfo(output).set(isSet ? context.outInfo(output).dataType() : info.dataType(),
                              info.shape());
}

}  // namespace popart

#endif  // popart_shapeinference_hpp
