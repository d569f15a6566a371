// Layers of plain recurrent cells: the output of a step is a non-linearity of the weighted input,
// the weighted output before it, and biases.
#ifndef popnn_Recurrent_hpp
#define popnn_Recurrent_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>
#include <popnn/NonLinearity.hpp>
#include <popnn/Rnn.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace popnn {
namespace rnn {

/// Products to plan before: none.
std::vector<std::pair<poplin::MatMulParams, poplar::OptionFlags>> getMatMulPrePlanParameters(
    std::size_t numSteps, std::size_t batchSize, std::size_t inputSize, std::size_t outputSize,
    const poplar::Type &dType, const poplar::Type &partialsType = poplar::FLOAT,
    bool inferenceOnly = false, bool hasFeedforwardWeights = true);

/// Operations of the passes: two for each weight, sequence and step.
std::uint64_t getFwdFlops(unsigned sequenceSize, unsigned batchSize, unsigned inputSize,
                          unsigned outputSize, bool weightInput = true);
std::uint64_t getBwdFlops(unsigned sequenceSize, unsigned batchSize, unsigned inputSize,
                          unsigned outputSize, bool calcInputGrad = true);
std::uint64_t getWuFlops(unsigned sequenceSize, unsigned batchSize, unsigned inputSize,
                         unsigned outputSize);

/// {time, batch, input}
poplar::Tensor createInput(poplar::Graph &graph, unsigned numSteps, unsigned batchSize,
                           unsigned inputSize, unsigned outputSize, const poplar::Type &dType,
                           const poplar::Type &partialsType = poplar::FLOAT,
                           bool inferenceOnly = false,
                           const poplar::DebugContext &debugContext = {},
                           poplin::PlanningCache *cache = nullptr);
/// {input, output}
poplar::Tensor createWeightsInput(poplar::Graph &graph, unsigned sequenceSize, unsigned batchSize,
                                  unsigned inputSize, unsigned outputSize,
                                  const poplar::Type &dType,
                                  const poplar::Type &partialsType = poplar::FLOAT,
                                  bool inferenceOnly = false,
                                  const poplar::DebugContext &debugContext = {},
                                  poplin::PlanningCache *cache = nullptr);
/// {output, output}
poplar::Tensor createWeightsFeedback(poplar::Graph &graph, unsigned batchSize, unsigned outputSize,
                                     const poplar::Type &dType,
                                     const poplar::Type &partialsType = poplar::FLOAT,
                                     bool inferenceOnly = false,
                                     const poplar::DebugContext &debugContext = {},
                                     poplin::PlanningCache *cache = nullptr);
/// The state before the first step, {batch, output}; zero after `prog` if `initState` is set.
poplar::Tensor createFwdState(poplar::Graph &graph, const poplar::Type &dType, unsigned batchSize,
                              unsigned outputSize, poplar::program::Sequence &prog, bool initState,
                              bool inferenceOnly, const poplar::DebugContext &debugContext = {},
                              poplin::PlanningCache *cache = nullptr);
/// The state of the backward pass before the last step, {batch, output}; zero after `prog`.
poplar::Tensor createBwdState(poplar::Graph &graph, const poplar::Type &dType, unsigned batchSize,
                              unsigned outputSize, poplar::program::Sequence &prog,
                              const poplar::DebugContext &debugContext = {},
                              poplin::PlanningCache *cache = nullptr);
/// The output {batch, output} of a state.
poplar::Tensor getOutputFromFwdState(const poplar::Tensor &fwdState);

/// Input {time, batch, input} times weights, {time, batch, output}.
poplar::Tensor forwardWeightInput(poplar::Graph &graph, const poplar::Tensor &actIn,
                                  const poplar::Tensor &weights, poplar::program::Sequence &prog,
                                  const poplar::Type &partialsType = poplar::FLOAT,
                                  bool inferenceOnly = false,
                                  const poplar::DebugContext &debugContext = {},
                                  poplin::PlanningCache *cache = nullptr);
/// The states after all steps, {time, batch, output}, from weighted input.
poplar::Tensor forwardIterate(
    poplar::Graph &graph, const poplar::Tensor &feedFwdIn, const poplar::Tensor &initState,
    const poplar::Tensor &feedbackWeights, const poplar::Tensor &biases,
    poplar::program::Sequence &prog, popnn::NonLinearityType nonLinearityType,
    const poplar::Type &partialsType = poplar::FLOAT, bool inferenceOnly = false,
    const poplar::DebugContext &debugContext = {}, poplin::PlanningCache *cache = nullptr);

/// One step back: the gradient of the input {batch, input}, and the new state of the backward pass.
///
/// @param nextLayerGrad the gradient of the step's output, {batch, output}.
/// @param bwdState the state of the step after it.
/// @param actOut the step's output.
std::pair<poplar::Tensor, poplar::Tensor> backwardGradientStep(
    poplar::Graph &graph, const poplar::Tensor &nextLayerGrad, const poplar::Tensor &bwdState,
    const poplar::Tensor &actOut, const poplar::Tensor &weightsInput,
    const poplar::Tensor &weightsFeedback, poplar::program::Sequence &prog,
    popnn::NonLinearityType nonLinearityType, const poplar::Type &partialsType = poplar::FLOAT,
    const poplar::DebugContext &debugContext = {}, poplin::PlanningCache *cache = nullptr);
/// The same without the gradient of the input.
poplar::Tensor backwardGradientStep(poplar::Graph &graph, const poplar::Tensor &nextLayerGrad,
                                    const poplar::Tensor &bwdState, const poplar::Tensor &actOut,
                                    const poplar::Tensor &weightsFeedback,
                                    poplar::program::Sequence &prog,
                                    popnn::NonLinearityType nonLinearityType,
                                    const poplar::Type &partialsType = poplar::FLOAT,
                                    const poplar::DebugContext &debugContext = {},
                                    poplin::PlanningCache *cache = nullptr);
/// Adds the gradients of one step to those of weights and biases.
///
/// @param bwdState the state that the step's backward pass gave.
/// @param actIn the step's input, {batch, input}.
/// @param prevOut the output before it, {batch, output}.
void paramDeltaUpdate(poplar::Graph &graph, const poplar::Tensor &bwdState,
                      const poplar::Tensor &actIn, const poplar::Tensor &prevOut,
                      poplar::Tensor &weightsInputDeltasAcc,
                      poplar::Tensor &weightsFeedbackDeltasAcc, poplar::Tensor &biasDeltasAcc,
                      poplar::program::Sequence &prog,
                      const poplar::Type &partialsType = poplar::FLOAT,
                      const poplar::DebugContext &debugContext = {},
                      poplin::PlanningCache *cache = nullptr);

/// The states after all steps, {time, batch, output}.
///
/// @param weightedIn the weighted input, or null: then it is `prevLayerActs` times the weights.
poplar::Tensor rnnFwdSequence(poplar::Graph &graph, poplar::program::Sequence &prog,
                              const poplar::Tensor &fwdStateInit, const poplar::Tensor *weightedIn,
                              const poplar::Tensor &biases, const poplar::Tensor &feedFwdWeights,
                              const poplar::Tensor &feedbackWeights,
                              const poplar::Tensor &prevLayerActs,
                              const popnn::NonLinearityType &nonLinearityType,
                              const poplar::Type &partialsType, bool inferenceOnly,
                              const poplar::DebugContext &debugContext = {},
                              poplin::PlanningCache *cache = nullptr);
/// Gradients of the input, of the weights of input and feedback, and of the biases. Those that are
/// not asked for are not valid.
std::tuple<poplar::Tensor, poplar::Tensor, poplar::Tensor, poplar::Tensor> rnnBwdSequence(
    poplar::Graph &graph, bool doWU, bool ignoreInputGradientCalc, poplar::program::Sequence &prog,
    const poplar::Tensor &fwdStateInit, const poplar::Tensor &fwdState,
    const poplar::Tensor &biases, const poplar::Tensor &feedFwdWeights,
    const poplar::Tensor &feedbackWeights, const poplar::Tensor &outGradient,
    const poplar::Tensor &actIn, const popnn::NonLinearityType &nonLinearityType,
    const poplar::Type &partialsType, const poplar::DebugContext &debugContext = {},
    poplin::PlanningCache *cache = nullptr);

}  // namespace rnn
}  // namespace popnn

#endif  // popnn_Recurrent_hpp
