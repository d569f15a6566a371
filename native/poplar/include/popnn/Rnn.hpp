// Shapes of recurrent layers.
#ifndef popnn_Rnn_hpp
#define popnn_Rnn_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace popnn {
namespace rnn {

/// Type, batch, steps and sizes: {input, output}.
struct RnnParams {
  poplar::Type dataType;
  std::size_t batchSize;
  std::size_t maxTimeSteps;
  std::size_t timeSteps;
  /// Steps of each sequence, if they vary.
  poplar::Tensor varTimeSteps;
  std::vector<std::size_t> layerSizes;

  RnnParams(poplar::Type dataType_, std::size_t batchSize_, std::size_t timeSteps_,
            std::vector<std::size_t> layerSizes_)
      : dataType(dataType_),
        batchSize(batchSize_),
        maxTimeSteps(timeSteps_),
        timeSteps(timeSteps_),
        layerSizes(std::move(layerSizes_)) {}
  RnnParams(poplar::Type dataType_, std::size_t batchSize_, std::size_t maxTimeSteps_,
            const poplar::Tensor &varTimeSteps_, std::vector<std::size_t> layerSizes_)
      : dataType(dataType_),
        batchSize(batchSize_),
        maxTimeSteps(maxTimeSteps_),
        timeSteps(maxTimeSteps_),
        varTimeSteps(varTimeSteps_),
        layerSizes(std::move(layerSizes_)) {}

  bool variableTimeSteps() const { return varTimeSteps.valid(); }
};

/// Variables of a layer; `numShards` is a choice of the chip, and changes nothing.
poplar::Tensor createInitialState(poplar::Graph &graph, const RnnParams &params, bool isOutput,
                                  unsigned multiple, unsigned numShards,
                                  const poplar::DebugContext &debugContext = {});
poplar::Tensor createRecurrentTensor(poplar::Graph &graph, const RnnParams &params, unsigned size,
                                     unsigned numShards,
                                     const poplar::DebugContext &debugContext = {});
poplar::Tensor createInputTensor(poplar::Graph &graph, const RnnParams &params, unsigned numShards,
                                 const poplar::DebugContext &debugContext = {});
poplar::Tensor createOutputTensor(poplar::Graph &graph, const RnnParams &params, unsigned numShards,
                                  const poplar::DebugContext &debugContext = {});

}  // namespace rnn
}  // namespace popnn

#endif  // popnn_Rnn_hpp
