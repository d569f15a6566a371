// Losses, accuracy, and the greatest elements of rows.
#ifndef popnn_Loss_hpp
#define popnn_Loss_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <utility>

namespace popnn {

/// SUM_SQUARED_LOSS is half of the sum of squares of a row. CROSS_ENTROPY_LOSS takes probabilities,
/// and its deltas are those of the input of softmax.
enum LossType { SUM_SQUARED_LOSS, CROSS_ENTROPY_LOSS };

/// Losses {batch} and deltas {batch, classes} of outputs {batch, classes}. `expected` has labels
/// {batch}, or a distribution {batch, classes}. A label 0xFFFFFFFF, and others that are no class,
/// have neither loss nor deltas.
poplar::program::Program calcLoss(poplar::Graph &graph, const poplar::Tensor &modelOutputs,
                                  const poplar::Tensor &expected, const poplar::Tensor &loss,
                                  const poplar::Tensor &deltas, const poplar::Tensor &deltasScale,
                                  const poplar::Tensor &modelOutputScaling, LossType lossType,
                                  const poplar::DebugContext &debugContext = {});
poplar::program::Program calcLoss(poplar::Graph &graph, const poplar::Tensor &modelOutputs,
                                  const poplar::Tensor &expected, const poplar::Tensor &loss,
                                  const poplar::Tensor &deltas, LossType lossType,
                                  const poplar::DebugContext &debugContext = {});
/// With the number of rows whose greatest output is at the label.
poplar::program::Program calcLoss(poplar::Graph &graph, const poplar::Tensor &modelOutputs,
                                  const poplar::Tensor &expected, const poplar::Tensor &loss,
                                  const poplar::Tensor &deltas, const poplar::Tensor &deltasScale,
                                  const poplar::Tensor &modelOutputScaling,
                                  const poplar::Tensor &numCorrect, LossType lossType,
                                  const poplar::DebugContext &debugContext = {});
poplar::program::Program calcLoss(poplar::Graph &graph, const poplar::Tensor &modelOutputs,
                                  const poplar::Tensor &expected, const poplar::Tensor &loss,
                                  const poplar::Tensor &deltas, const poplar::Tensor &numCorrect,
                                  LossType lossType, const poplar::DebugContext &debugContext = {});
poplar::program::Program calcAccuracy(poplar::Graph &graph, const poplar::Tensor &modelOutputs,
                                      const poplar::Tensor &expected,
                                      const poplar::Tensor &numCorrect,
                                      const poplar::DebugContext &debugContext = {});

/// The place of the greatest or least element of each row of {batch, classes}; the first of equals.
poplar::Tensor argMax(poplar::Graph &graph, const poplar::Tensor &input,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {});
poplar::Tensor argMin(poplar::Graph &graph, const poplar::Tensor &input,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {});
/// The elements, and their places.
std::pair<poplar::Tensor, poplar::Tensor> maxAndArgMax(
    poplar::Graph &graph, const poplar::Tensor &input, poplar::program::Sequence &prog,
    const poplar::DebugContext &debugContext = {});
std::pair<poplar::Tensor, poplar::Tensor> minAndArgMin(
    poplar::Graph &graph, const poplar::Tensor &input, poplar::program::Sequence &prog,
    const poplar::DebugContext &debugContext = {});

/// The K greatest elements of each row, in descending order if `sort`, and their places.
poplar::Tensor topK(poplar::Graph &graph, const poplar::Tensor &input, poplar::Tensor &indices,
                    unsigned K, bool sort, poplar::program::Sequence &prog,
                    const poplar::DebugContext &debugContext = {});

}  // namespace popnn

#endif  // popnn_Loss_hpp
