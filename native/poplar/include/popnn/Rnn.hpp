// Shapes of recurrent layers, and loops over time steps whose body the caller makes.
#ifndef popnn_Rnn_hpp
#define popnn_Rnn_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <cstddef>
#include <functional>
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

/// Where a loop is; each tensor is UNSIGNED_INT {1}.
struct TimeStepState {
  /// The step at which the loop begins.
  poplar::Tensor begin;
  /// Steps that have been done.
  poplar::Tensor counter;
  /// The step of this iteration.
  poplar::Tensor seqIdx;
};

/// Slices of a loop's tensors for one step.
///
/// The slice of a tensor {time, ...} has the shape without its first dimension. A tensor
/// {multiple * time, ...} gives slices {multiple, ...}.
struct RnnSlice {
  std::vector<poplar::Tensor> inputs;
  poplar::Tensor interimIn;
  /// The body writes these.
  poplar::Tensor interimOut;
  std::vector<poplar::Tensor> outputs;
};

/// For steps that vary: one for each sequence that has the step, else zero; and the opposite. Both
/// are {batch}, of the type of the data. They are not valid if all sequences have all steps.
struct RnnBatchwiseFlags {
  poplar::Tensor mask;
  poplar::Tensor inverse;

  bool valid() const { return mask.valid(); }
};

/// A tensor {time, ...} that gets one of the states after each step, if it is valid.
struct StateSequence {
  poplar::Tensor output;
  std::size_t stateIndex;
};

/// Makes the program of a step: of the graph, the step, flags of sequences, states, slices, the
/// tensors `created`, a program that runs before the loop, and a name.
///
/// States are read, and written in place or replaced by new tensors.
using LoopBodyType = std::function<poplar::program::Sequence(
    poplar::Graph &, const TimeStepState &, const RnnBatchwiseFlags &,
    std::vector<poplar::Tensor> &, const RnnSlice &, std::vector<poplar::Tensor> &,
    poplar::program::Sequence *, const poplar::DebugNameAndId &)>;

/// Runs a body for all time steps, and returns the last states. `loopFn` is called once.
///
/// Where steps vary, the state of a sequence that has ended stays, and outputs are what the body
/// writes.
///
/// @param reverse from the last step to the first.
/// @param initState states before the first step.
/// @param inputs tensors that the body reads, slice by slice.
/// @param interimIn one more of them, or null.
/// @param interimOut a tensor that the body writes, slice by slice, or null.
/// @param outputs more of them.
/// @param created tensors for the body, which are not sliced.
/// @param numShards a choice of the chip: it changes nothing.
std::vector<poplar::Tensor> Rnn(poplar::Graph &graph, const RnnParams &params, bool reverse,
                                const std::vector<poplar::Tensor> &initState,
                                const StateSequence &stateSequence,
                                const std::vector<poplar::Tensor> &inputs,
                                const poplar::Tensor *interimIn, poplar::Tensor *interimOut,
                                const std::vector<poplar::Tensor> &outputs,
                                const std::vector<poplar::Tensor> &created,
                                poplar::program::Sequence &prog, const LoopBodyType &loopFn,
                                unsigned numShards, poplar::OptionFlags &options,
                                const poplar::DebugContext &debugContext = {});

/// A copy of `tBase` {time, ...} one step later: it begins with `tSingle` {...}.
poplar::Tensor shiftRnnTensor(poplar::Graph &graph, const RnnParams &params,
                              const poplar::Tensor &tBase, const poplar::Tensor &tSingle,
                              poplar::program::Sequence &prog, unsigned numShards,
                              const poplar::DebugContext &debugContext = {});

/// Variables of a layer: states {multiple, batch, size}, sequences {time, batch, size}. `numShards`
/// is a choice of the chip, and changes nothing.
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
/// {multiple * time, batch, output}
poplar::Tensor createOutputTensor(poplar::Graph &graph, const RnnParams &params, unsigned multiple,
                                  unsigned numShards,
                                  const poplar::DebugContext &debugContext = {});

}  // namespace rnn
}  // namespace popnn

#endif  // popnn_Rnn_hpp
