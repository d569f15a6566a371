// Non-linearities and their gradients.
#ifndef popnn_NonLinearity_hpp
#define popnn_NonLinearity_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <popnn/NonLinearityDef.hpp>

namespace popnn {

/// A non-linearity of each element, or a softmax over the last dimension.
///
/// `nonLinearityScaling` becomes the factor of SOFTMAX_SCALED, which its result has, else 1.
poplar::Tensor nonLinearity(poplar::Graph &graph, NonLinearityType nonLinearityType,
                            poplar::Tensor t, poplar::program::Sequence &prog,
                            const poplar::DebugContext &debugContext = {});
poplar::Tensor nonLinearity(poplar::Graph &graph, NonLinearityType nonLinearityType,
                            poplar::Tensor t, float &nonLinearityScaling,
                            poplar::program::Sequence &prog,
                            const poplar::DebugContext &debugContext = {});
void nonLinearityInPlace(poplar::Graph &graph, NonLinearityType nonLinearityType, poplar::Tensor t,
                         poplar::program::Sequence &prog,
                         const poplar::DebugContext &debugContext = {});
void nonLinearityInPlace(poplar::Graph &graph, NonLinearityType nonLinearityType, poplar::Tensor t,
                         float &nonLinearityScaling, poplar::program::Sequence &prog,
                         const poplar::DebugContext &debugContext = {});

/// The same as a part of a compute set.
void nonLinearityInPlace(poplar::Graph &graph, NonLinearityType nonLinearityType, poplar::Tensor t,
                         poplar::ComputeSet &cs, const poplar::DebugContext &debugContext = {});
void nonLinearityInPlace(poplar::Graph &graph, NonLinearityType nonLinearityType, poplar::Tensor t,
                         float &nonLinearityScaling, poplar::ComputeSet &cs,
                         const poplar::DebugContext &debugContext = {});

/// The gradient of the input, from that of the result and `act`: the result, but for GELU, GELU_ERF
/// and SWISH the input.
poplar::Tensor nonLinearityInputGradient(poplar::Graph &graph, NonLinearityType nonLinearityType,
                                         poplar::Tensor act, poplar::Tensor outGradient,
                                         poplar::program::Sequence &prog,
                                         const poplar::DebugContext &debugContext = {});

poplar::Tensor nonLinearityInputGradient(poplar::Graph &graph, NonLinearityType nonLinearityType,
                                         poplar::Tensor act, poplar::Tensor outGradient,
                                         poplar::ComputeSet &cs,
                                         const poplar::DebugContext &debugContext = {});

#define POPNN_DECLARE_NONLINEARITY(NAME)                                                       \
  poplar::Tensor NAME(poplar::Graph &graph, poplar::Tensor t, poplar::program::Sequence &prog, \
                      const poplar::DebugContext &debugContext = {});                          \
  poplar::Tensor NAME(poplar::Graph &graph, poplar::Tensor t, float &nonLinearityScaling,      \
                      poplar::program::Sequence &prog,                                         \
                      const poplar::DebugContext &debugContext = {});                          \
  void NAME##InPlace(poplar::Graph &graph, poplar::Tensor t, poplar::program::Sequence &prog,  \
                     const poplar::DebugContext &debugContext = {});                           \
  void NAME##InPlace(poplar::Graph &graph, poplar::Tensor t, float &nonLinearityScaling,       \
                     poplar::program::Sequence &prog,                                          \
                     const poplar::DebugContext &debugContext = {});

POPNN_DECLARE_NONLINEARITY(sigmoid)
POPNN_DECLARE_NONLINEARITY(hardSigmoid)
POPNN_DECLARE_NONLINEARITY(relu)
POPNN_DECLARE_NONLINEARITY(tanh)
POPNN_DECLARE_NONLINEARITY(gelu)
POPNN_DECLARE_NONLINEARITY(geluErf)
POPNN_DECLARE_NONLINEARITY(swish)
POPNN_DECLARE_NONLINEARITY(softmax)
POPNN_DECLARE_NONLINEARITY(softmaxStable)
POPNN_DECLARE_NONLINEARITY(scaledSoftmax)

#undef POPNN_DECLARE_NONLINEARITY

}  // namespace popnn

#endif  // popnn_NonLinearity_hpp
