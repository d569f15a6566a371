// Losses of CTC (connectionist temporal classification) and their gradients.
#ifndef popnn_CTCLoss_hpp
#define popnn_CTCLoss_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popnn/CTCPlan.hpp>

#include <cstddef>
#include <utility>

namespace popnn {
namespace ctc {

Plan plan(const poplar::Graph &graph, const poplar::Type &inType, const poplar::Type &outType,
          unsigned batchSize, unsigned maxTime, unsigned maxLabelLength, unsigned numClasses,
          const poplar::OptionFlags &options = {});

/// {time, batch, classes}
poplar::Tensor createDataInput(poplar::Graph &graph, const poplar::Type &type,
                               const std::size_t batchSize, const std::size_t maxTime,
                               const std::size_t numClasses, const Plan &plan,
                               const poplar::DebugContext &debugContext = {});
/// {batch, labels}, of an integer type.
poplar::Tensor createLabelsInput(poplar::Graph &graph, const poplar::Type &type,
                                 const std::size_t batchSize, const std::size_t maxLabelLength,
                                 const Plan &plan, const poplar::DebugContext &debugContext = {});

/// The negative log probability {batch} of the labels, summed over their alignments with the data,
/// and its gradient {time, batch, classes} by the logits of which a softmax makes the
/// probabilities. Labels that are impossible have an infinite loss, and no gradient.
///
/// @param logProbs logarithms of probabilities, {time, batch, classes}.
/// @param labels {batch, labels}, UNSIGNED_SHORT, UNSIGNED_INT or INT.
/// @param dataLengths steps of each sequence, {batch}.
/// @param labelLengths labels of each sequence, {batch}.
std::pair<poplar::Tensor, poplar::Tensor> calcLossAndGradientLogProbabilities(
    poplar::Graph &graph, const poplar::Type &outType, const poplar::Tensor &logProbs,
    const poplar::Tensor &labels, const poplar::Tensor &dataLengths,
    const poplar::Tensor &labelLengths, poplar::program::Sequence &prog, const unsigned blankClass,
    const Plan &plan, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {});
/// The same of logits, to which a log softmax is applied.
std::pair<poplar::Tensor, poplar::Tensor> calcLossAndGradientLogits(
    poplar::Graph &graph, const poplar::Type &outType, const poplar::Tensor &logits,
    const poplar::Tensor &labels, const poplar::Tensor &dataLengths,
    const poplar::Tensor &labelLengths, poplar::program::Sequence &prog, const unsigned blankClass,
    const Plan &plan, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {});

/// The losses alone.
poplar::Tensor calcCTCLossLogProbabilities(
    poplar::Graph &graph, const poplar::Type &outType, const poplar::Tensor &logProbs,
    const poplar::Tensor &labels, const poplar::Tensor &dataLengths,
    const poplar::Tensor &labelLengths, poplar::program::Sequence &prog, const unsigned blankClass,
    const Plan &plan, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {});
poplar::Tensor calcCTCLossLogits(poplar::Graph &graph, const poplar::Type &outType,
                                 const poplar::Tensor &logits, const poplar::Tensor &labels,
                                 const poplar::Tensor &dataLengths,
                                 const poplar::Tensor &labelLengths,
                                 poplar::program::Sequence &prog, const unsigned blankClass,
                                 const Plan &plan, const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {});

}  // namespace ctc
}  // namespace popnn

#endif  // popnn_CTCLoss_hpp
