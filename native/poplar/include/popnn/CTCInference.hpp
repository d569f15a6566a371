// The beam search of CTC (connectionist temporal classification).
#ifndef popnn_CTCInference_hpp
#define popnn_CTCInference_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popnn/CTCPlan.hpp>

#include <cstddef>
#include <tuple>

namespace popnn {
namespace ctc_infer {

ctc::Plan plan(const poplar::Graph &graph, const poplar::Type &inType, unsigned batchSize,
               unsigned maxTime, unsigned numClasses, unsigned beamwidth,
               const poplar::OptionFlags &options = {});

/// {time, batch, classes}
poplar::Tensor createDataInput(poplar::Graph &graph, const poplar::Type &type,
                               const std::size_t batchSize, const std::size_t maxTime,
                               const std::size_t numClasses, const ctc::Plan &plan,
                               const poplar::DebugContext &debugContext = {});

/// Log probabilities {batch, topPaths} of the most likely label sequences, the most likely first;
/// their lengths {batch, topPaths}; and labels {batch, topPaths, time}, filled up with the blank.
/// Lengths and labels are UNSIGNED_INT.
///
/// @param logProbs logarithms of probabilities, {time, batch, classes}.
/// @param dataLengths steps of each sequence, {batch}.
/// @param beamwidth label sequences that are kept after each step.
std::tuple<poplar::Tensor, poplar::Tensor, poplar::Tensor> beamSearchDecoderLogProbabilities(
    poplar::Graph &graph, const poplar::Tensor &logProbs, const poplar::Tensor &dataLengths,
    poplar::program::Sequence &prog, unsigned blankClass, unsigned beamwidth, unsigned topPaths,
    const ctc::Plan &plan, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {});
/// The same of logits, to which a log softmax is applied.
std::tuple<poplar::Tensor, poplar::Tensor, poplar::Tensor> beamSearchDecoderLogits(
    poplar::Graph &graph, const poplar::Tensor &logits, const poplar::Tensor &dataLengths,
    poplar::program::Sequence &prog, unsigned blankClass, unsigned beamwidth, unsigned topPaths,
    const ctc::Plan &plan, const poplar::DebugContext &debugContext = {},
    const poplar::OptionFlags &options = {});

}  // namespace ctc_infer
}  // namespace popnn

#endif  // popnn_CTCInference_hpp
