// LSTM layers, forward and backward.
#ifndef popnn_Lstm_hpp
#define popnn_Lstm_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <poplin/MatMul.hpp>
#include <popnn/LstmDef.hpp>
#include <popnn/NonLinearityDef.hpp>
#include <popnn/Rnn.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace popnn {
namespace lstm {

/// Forget gate, input gate, candidate, output gate.
const std::vector<BasicLstmCellUnit> getDefaultBasicLstmCellOrder();

struct LstmParams {
  ::popnn::rnn::RnnParams rnn;
  /// The outputs of all steps, or of the last one only.
  bool outputFullSequence = true;
  bool doInputWeightCalc = true;
  bool calcInputGradients = true;
  /// The order of weights in their first dimension.
  std::vector<BasicLstmCellUnit> cellOrder = getDefaultBasicLstmCellOrder();
  bool preserveFinalState = false;
  NonLinearityType activation = NonLinearityType::TANH;
  NonLinearityType recurrentActivation = NonLinearityType::SIGMOID;

  LstmParams(poplar::Type dataType, std::size_t batchSize, std::size_t timeSteps,
             std::vector<std::size_t> layerSizes,
             NonLinearityType activation_ = NonLinearityType::TANH,
             NonLinearityType recurrentActivation_ = NonLinearityType::SIGMOID)
      : rnn(dataType, batchSize, timeSteps, std::move(layerSizes)),
        activation(activation_),
        recurrentActivation(recurrentActivation_) {}
  LstmParams(poplar::Type dataType, std::size_t batchSize, std::size_t maxTimeSteps,
             const poplar::Tensor &timeSteps, std::vector<std::size_t> layerSizes,
             NonLinearityType activation_ = NonLinearityType::TANH,
             NonLinearityType recurrentActivation_ = NonLinearityType::SIGMOID)
      : rnn(dataType, batchSize, maxTimeSteps, timeSteps, std::move(layerSizes)),
        activation(activation_),
        recurrentActivation(recurrentActivation_) {}
};

/// {batch, hidden} each.
struct LstmState {
  poplar::Tensor output;
  poplar::Tensor cellState;
};

/// {4, input, hidden}, {4, hidden, hidden} and {4, hidden}.
struct LstmWeights {
  poplar::Tensor inputWeights;
  poplar::Tensor outputWeights;
  poplar::Tensor biases;
};

poplar::Tensor createInput(poplar::Graph &graph, const LstmParams &params,
                           const poplar::DebugContext &debugContext,
                           const poplar::OptionFlags &options = {},
                           poplin::PlanningCache *cache = nullptr);
poplar::Tensor createInitialOutput(poplar::Graph &graph, const LstmParams &params,
                                   const poplar::DebugContext &debugContext,
                                   const poplar::OptionFlags &options = {},
                                   poplin::PlanningCache *cache = nullptr);
poplar::Tensor createInitialCellState(poplar::Graph &graph, const LstmParams &params,
                                      const poplar::DebugContext &debugContext,
                                      const poplar::OptionFlags &options = {},
                                      poplin::PlanningCache *cache = nullptr);
LstmState createInitialState(poplar::Graph &graph, const LstmParams &params,
                             const poplar::DebugContext &debugContext,
                             const poplar::OptionFlags &options = {},
                             poplin::PlanningCache *cache = nullptr);
void zeroInitialState(poplar::Graph &graph, const LstmState &initialState,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {});
std::pair<poplar::Tensor, poplar::Tensor> createWeightsKernel(
    poplar::Graph &graph, const LstmParams &params, const poplar::DebugContext &debugContext,
    const poplar::OptionFlags &options = {}, poplin::PlanningCache *cache = nullptr);
poplar::Tensor createWeightsBiases(poplar::Graph &graph, const LstmParams &params,
                                   const poplar::DebugContext &debugContext,
                                   const poplar::OptionFlags &options = {},
                                   poplin::PlanningCache *cache = nullptr);
LstmWeights createWeights(poplar::Graph &graph, const LstmParams &params,
                          const poplar::DebugContext &debugContext,
                          const poplar::OptionFlags &options = {},
                          poplin::PlanningCache *cache = nullptr);

/// Outputs {time, batch, hidden}, or {batch, hidden} of the last step, and the last cell state. If
/// `intermediates` is given, it gets what the backward pass needs.
std::pair<poplar::Tensor, poplar::Tensor> lstmFwd(
    poplar::Graph &graph, const LstmParams &params, const LstmState &stateInit,
    const poplar::Tensor &in, const LstmWeights &weights, poplar::Tensor *intermediates,
    poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {}, poplin::PlanningCache *cache = nullptr);

/// The gradient of the first state. `inputGrad` and `bwdIntermediates` are results, if given.
LstmState lstmBwd(poplar::Graph &graph, const LstmParams &params, poplar::program::Sequence &prog,
                  const LstmState &fwdStateInit, const poplar::Tensor &fwdIntermediates,
                  const LstmWeights &weights, const poplar::Tensor &input,
                  const poplar::Tensor &output, const poplar::Tensor &outputGrad,
                  const LstmState *lastStepStateGrad, poplar::Tensor *inputGrad,
                  poplar::Tensor *bwdIntermediates, const poplar::DebugContext &debugContext = {},
                  const poplar::OptionFlags &options = {}, poplin::PlanningCache *cache = nullptr);
/// The gradients of the weights.
LstmWeights lstmWU(poplar::Graph &graph, const LstmParams &params, poplar::program::Sequence &prog,
                   const LstmState &fwdStateInit, const poplar::Tensor &fwdIntermediates,
                   const poplar::Tensor &bwdIntermediates, const LstmWeights &weights,
                   const poplar::Tensor &input, const poplar::Tensor &output,
                   const poplar::DebugContext &debugContext = {},
                   const poplar::OptionFlags &options = {}, poplin::PlanningCache *cache = nullptr);
/// Both.
LstmState lstmBwdWithWU(poplar::Graph &graph, const LstmParams &params,
                        poplar::program::Sequence &prog, const LstmState &fwdStateInit,
                        const poplar::Tensor &fwdIntermediates, const LstmWeights &weights,
                        const poplar::Tensor &input, const poplar::Tensor &output,
                        const poplar::Tensor &outputGrad, const LstmState *lastStepStateGrad,
                        poplar::Tensor *inputGrad, LstmWeights &weightsGrad,
                        const poplar::DebugContext &debugContext = {},
                        const poplar::OptionFlags &options = {},
                        poplin::PlanningCache *cache = nullptr);

/// Operations of the passes: two for each weight, sequence and step.
std::uint64_t getBasicLstmCellFwdFlops(const LstmParams &params);
std::uint64_t getBasicLstmCellBwdFlops(const LstmParams &params);
std::uint64_t getBasicLstmCellWuFlops(const LstmParams &params);

/// Products to plan before: none.
std::vector<std::pair<poplin::MatMulParams, poplar::OptionFlags>> getMatMulPrePlanParameters(
    LstmParams params, poplar::OptionFlags opts);

}  // namespace lstm
}  // namespace popnn

#endif  // popnn_Lstm_hpp
