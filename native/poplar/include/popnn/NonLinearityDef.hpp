// Kinds of non-linearities.
#ifndef popnn_NonLinearityDef_hpp
#define popnn_NonLinearityDef_hpp

namespace popnn {

enum class NonLinearityType {
  SIGMOID,
  HARD_SIGMOID,
  RELU,
  TANH,
  /// By tanh.
  GELU,
  /// By erf.
  GELU_ERF,
  SWISH,
  SOFTMAX,
  /// Subtracts the maximum before.
  SOFTMAX_STABLE,
  /// Times a scale that the call returns.
  SOFTMAX_SCALED
};

}  // namespace popnn

#endif  // popnn_NonLinearityDef_hpp
