// GRU layers, forward and backward, also with attention.
#ifndef popnn_Gru_hpp
#define popnn_Gru_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <poplin/PlanningCache.hpp>
#include <popnn/GruDef.hpp>
#include <popnn/NonLinearityDef.hpp>
#include <popnn/Rnn.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace popnn {
namespace gru {

/// Reset gate, update gate, candidate.
const std::vector<BasicGruCellUnit> getDefaultBasicGruCellOrder();

struct GruParams {
  ::popnn::rnn::RnnParams rnn;
  /// The outputs of all steps, or of the last one only.
  bool outputFullSequence = true;
  bool doInputWeightCalc = true;
  bool calcInputGradients = true;
  /// The order of weights in their first dimension.
  std::vector<BasicGruCellUnit> cellOrder = getDefaultBasicGruCellOrder();
  /// Whether the reset gate is applied after the product with the state.
  bool resetAfter = false;
  NonLinearityType activation = NonLinearityType::TANH;
  NonLinearityType recurrentActivation = NonLinearityType::SIGMOID;

  GruParams(poplar::Type dataType, std::size_t batchSize, std::size_t timeSteps,
            std::vector<std::size_t> layerSizes,
            NonLinearityType activation_ = NonLinearityType::TANH,
            NonLinearityType recurrentActivation_ = NonLinearityType::SIGMOID)
      : rnn(dataType, batchSize, timeSteps, std::move(layerSizes)),
        activation(activation_),
        recurrentActivation(recurrentActivation_) {}
};

/// {3, input, hidden}, {3, hidden, hidden}, and {3, hidden}, or {3, 2, hidden} with resetAfter.
struct GruWeights {
  poplar::Tensor inputWeights;
  poplar::Tensor outputWeights;
  poplar::Tensor biases;
};

poplar::Tensor createInput(poplar::Graph &graph, const GruParams &params,
                           const poplar::DebugContext &debugContext,
                           const poplar::OptionFlags &options = {},
                           poplin::PlanningCache *planningCache = nullptr);
poplar::Tensor createInitialState(poplar::Graph &graph, const GruParams &params,
                                  const poplar::DebugContext &debugContext,
                                  const poplar::OptionFlags &options = {},
                                  poplin::PlanningCache *planningCache = nullptr);
std::pair<poplar::Tensor, poplar::Tensor> createWeightsKernel(
    poplar::Graph &graph, const GruParams &params, const poplar::DebugContext &debugContext,
    const poplar::OptionFlags &options = {}, poplin::PlanningCache *planningCache = nullptr);
poplar::Tensor createWeightsBiases(poplar::Graph &graph, const GruParams &params,
                                   const poplar::DebugContext &debugContext,
                                   const poplar::OptionFlags &options = {},
                                   poplin::PlanningCache *planningCache = nullptr);
GruWeights createWeights(poplar::Graph &graph, const GruParams &params,
                         const poplar::DebugContext &debugContext,
                         const poplar::OptionFlags &options = {},
                         poplin::PlanningCache *planningCache = nullptr);
/// Scores {batch, time}.
poplar::Tensor createAttention(poplar::Graph &graph, const GruParams &params,
                               const poplar::DebugContext &debugContext,
                               const poplar::OptionFlags &options = {});

/// Outputs {time, batch, hidden}, or {batch, hidden} of the last step. If `intermediates` is given,
/// it gets what the backward pass needs.
poplar::Tensor gruFwd(poplar::Graph &graph, const GruParams &params,
                      const poplar::Tensor &stateInit, const poplar::Tensor &in,
                      const GruWeights &weights, poplar::Tensor *intermediates,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {},
                      const poplar::OptionFlags &options = {},
                      poplin::PlanningCache *planningCache = nullptr);
/// With scores by which the update gate is less.
poplar::Tensor auGruFwd(poplar::Graph &graph, const GruParams &params,
                        const poplar::Tensor &stateInit, const poplar::Tensor &in,
                        const GruWeights &weights, poplar::Tensor *intermediates,
                        const poplar::Tensor &attScores, poplar::program::Sequence &prog,
                        const poplar::DebugContext &debugContext = {},
                        const poplar::OptionFlags &options = {},
                        poplin::PlanningCache *planningCache = nullptr);

/// The gradient of the first state. `inputGrad` and `bwdIntermediates` are results, if given.
poplar::Tensor gruBwd(poplar::Graph &graph, const GruParams &params,
                      poplar::program::Sequence &prog, const poplar::Tensor &fwdOutputInit,
                      const poplar::Tensor &fwdIntermediates, const GruWeights &weights,
                      const poplar::Tensor &fwdInputSeq, const poplar::Tensor &fwdOutput,
                      const poplar::Tensor &gradLayerNext, poplar::Tensor *inputGrad,
                      poplar::Tensor *bwdIntermediates, const poplar::DebugContext &debugContext,
                      const poplar::OptionFlags &options, poplin::PlanningCache *planningCache);
/// The gradients of the weights.
GruWeights gruWU(poplar::Graph &graph, const GruParams &params, poplar::program::Sequence &prog,
                 const poplar::Tensor &fwdOutputInit, const poplar::Tensor &fwdIntermediates,
                 const poplar::Tensor &bwdIntermediates, const GruWeights &weights,
                 const poplar::Tensor &input, const poplar::Tensor &output,
                 const poplar::DebugContext &debugContext, const poplar::OptionFlags &options,
                 poplin::PlanningCache *planningCache);
/// Both.
poplar::Tensor gruBwdWithWU(poplar::Graph &graph, const GruParams &params,
                            poplar::program::Sequence &prog, const poplar::Tensor &fwdOutputInit,
                            const poplar::Tensor &fwdIntermediates, const GruWeights &weights,
                            const poplar::Tensor &input, const poplar::Tensor &output,
                            const poplar::Tensor &outputGrad, poplar::Tensor *inputGrad,
                            GruWeights &weightsGrad, const poplar::DebugContext &debugContext,
                            const poplar::OptionFlags &options,
                            poplin::PlanningCache *planningCache);

/// The gradient of the first state. `inputGrad` and `bwdIntermediates` are results, if given.
poplar::Tensor auGruBwd(poplar::Graph &graph, const GruParams &params,
                        poplar::program::Sequence &prog, const poplar::Tensor &fwdOutputInit,
                        const poplar::Tensor &fwdIntermediates, const GruWeights &weights,
                        const poplar::Tensor &fwdInputSeq, const poplar::Tensor &fwdOutput,
                        const poplar::Tensor &gradLayerNext, poplar::Tensor *inputGrad,
                        poplar::Tensor *bwdIntermediates, const poplar::Tensor &attentions,
                        poplar::Tensor *attentionsGrad, const poplar::DebugContext &debugContext,
                        const poplar::OptionFlags &options, poplin::PlanningCache *planningCache);
/// The gradients of the weights.
GruWeights auGruWU(poplar::Graph &graph, const GruParams &params, poplar::program::Sequence &prog,
                   const poplar::Tensor &fwdOutputInit, const poplar::Tensor &fwdIntermediates,
                   const poplar::Tensor &bwdIntermediates, const GruWeights &weights,
                   const poplar::Tensor &input, const poplar::Tensor &output,
                   const poplar::DebugContext &debugContext, const poplar::OptionFlags &options,
                   poplin::PlanningCache *planningCache);
/// Both.
poplar::Tensor auGruBwdWithWU(poplar::Graph &graph, const GruParams &params,
                              poplar::program::Sequence &prog, const poplar::Tensor &fwdOutputInit,
                              const poplar::Tensor &fwdIntermediates, const GruWeights &weights,
                              const poplar::Tensor &input, const poplar::Tensor &output,
                              const poplar::Tensor &outputGrad, poplar::Tensor *inputGrad,
                              GruWeights &weightsGrad, const poplar::Tensor &attentions,
                              poplar::Tensor *attentionsGrad,
                              const poplar::DebugContext &debugContext,
                              const poplar::OptionFlags &options,
                              poplin::PlanningCache *planningCache);

/// Operations of the passes: two for each weight, sequence and step.
std::uint64_t getBasicGruCellFwdFlops(const GruParams &params);
std::uint64_t getBasicGruCellBwdFlops(const GruParams &params);
std::uint64_t getBasicGruCellWuFlops(const GruParams &params);

}  // namespace gru
}  // namespace popnn

#endif  // popnn_Gru_hpp
