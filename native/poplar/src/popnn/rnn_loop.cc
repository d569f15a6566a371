#include "popnn/Rnn.hpp"

#include <string>

#include "popnn/recurrent.h"
#include "popops/Cast.hpp"
#include "popops/DynamicSlice.hpp"
#include "popops/ElementWise.hpp"
#include "popops/Loop.hpp"
#include "poputil/Util.hpp"

namespace popnn::rnn {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;
using poputil::CallSite;

namespace {

Tensor NewSequence(const char* function, Graph& graph, const RnnParams& params, size_t multiple,
                   size_t size, const DebugContext& debug) {
  return CallSite(function, graph, debug)
      .NewTensor(params.dataType, {multiple * params.maxTimeSteps, params.batchSize, size},
                 "sequence");
}

// A tensor {multiple * time, ...} as {time, ...} or {time, multiple, ...}.
Tensor BySteps(const CallSite& site, const char* name, const Tensor& tensor, size_t steps) {
  if (tensor.rank() == 0 || tensor.dim(0) == 0 || tensor.dim(0) % steps != 0) {
    site.Fail(std::string(name) + " has the shape " + tensor.shapeToString() +
              "; expected a first dimension that is a multiple of the " + std::to_string(steps) +
              " time steps.");
  }
  if (tensor.dim(0) == steps) return tensor;
  return tensor.reshapePartial(0, 1, {steps, tensor.dim(0) / steps});
}

// The body of a loop: slices before it, and updates after it.
class Body {
 public:
  Body(const CallSite& site, const RnnParams& params, const TimeStepState& time)
      : site_(site), params_(params), time_(time) {}

  Tensor Read(const char* name, const Tensor& tensor) {
    return popops::dynamicSlice(site_.graph(), BySteps(site_, name, tensor, params_.maxTimeSteps),
                                time_.seqIdx, {0}, {1}, before_, site_.debug())
        .squeeze({0});
  }

  // A slice that is written to the tensor after the body.
  Tensor Write(const char* name, const Tensor& tensor) {
    const Tensor steps = BySteps(site_, name, tensor, params_.maxTimeSteps);
    const Tensor slice =
        site_.graph().clone(steps[0], site_.debug(), poplar::TensorCloneMethod::CREATE_NEW_ORDER);
    Put(steps, slice, &after_);
    return slice;
  }

  void Put(const Tensor& steps, const Tensor& slice, Sequence* prog) {
    popops::dynamicUpdate(site_.graph(), steps, slice.expand({0}), time_.seqIdx, {0}, {1}, *prog,
                          site_.debug());
  }

  Sequence& before() { return before_; }
  Sequence& after() { return after_; }

 private:
  const CallSite& site_;
  const RnnParams& params_;
  const TimeStepState& time_;
  Sequence before_, after_;
};

// Flags of the sequences that have the step of this iteration, {batch}.
Tensor HasStep(const CallSite& site, const RnnParams& params, const TimeStepState& time,
               Sequence& prog) {
  const Tensor& steps = params.varTimeSteps;
  if (steps.numElements() != 1 && steps.numElements() != params.batchSize) {
    site.Fail("varTimeSteps have " + std::to_string(steps.numElements()) +
              " elements; expected one for all sequences, or " + std::to_string(params.batchSize) +
              ", one for each.");
  }
  const Tensor flat = steps.flatten().reinterpret(poplar::UNSIGNED_INT);
  const Tensor has = popops::lt(site.graph(), time.seqIdx, flat, prog, site.debug());
  if (has.numElements() == params.batchSize) return has;
  return has.broadcast(static_cast<unsigned>(params.batchSize), 0);
}

// Flags {batch} in the shape of a state {..., batch, size}.
Tensor LikeState(const CallSite& site, const Tensor& flags, const Tensor& state) {
  if (state.rank() < 2 || state.dim(state.rank() - 2) != flags.numElements()) {
    site.Fail("a state has the shape " + state.shapeToString() +
              "; expected {..., batch, size} where time steps vary.");
  }
  return flags.expand({1});
}

}  // namespace

std::vector<Tensor> Rnn(Graph& graph, const RnnParams& params, bool reverse,
                        const std::vector<Tensor>& initState, const StateSequence& stateSequence,
                        const std::vector<Tensor>& inputs, const Tensor* interimIn,
                        Tensor* interimOut, const std::vector<Tensor>& outputs,
                        const std::vector<Tensor>& created, Sequence& prog,
                        const LoopBodyType& loopFn, unsigned, OptionFlags& options,
                        const DebugContext& debugContext) {
  const char* function = "popnn::rnn::Rnn";
  CheckRecurrentOptions(function, options);
  const CallSite site(function, graph, debugContext);
  const size_t steps = params.maxTimeSteps;
  if (steps == 0) site.Fail("there are no time steps; expected at least one.");
  if (stateSequence.output.valid() && stateSequence.stateIndex >= initState.size()) {
    site.Fail("the sequence is of state " + std::to_string(stateSequence.stateIndex) +
              "; expected one of the " + std::to_string(initState.size()) + " states.");
  }
  std::vector<Tensor> states;
  for (const Tensor& state : initState) {
    states.push_back(site.NewLike(state.elementType(), state, "state"));
    prog.add(Copy(state, states.back(), false, debugContext));
  }
  Sequence init(debugContext);
  const auto step = [&](const Tensor& counter) {
    TimeStepState time;
    const unsigned last = static_cast<unsigned>(steps - 1);
    time.counter = counter;
    time.begin = graph.addConstant(poplar::UNSIGNED_INT, {1}, reverse ? last : 0u, debugContext);
    graph.setTileMapping(time.begin, 0);
    Sequence iteration(debugContext);
    time.seqIdx =
        reverse ? popops::sub(graph, time.begin, counter, iteration, debugContext) : counter;
    RnnBatchwiseFlags flags;
    Tensor has_step;
    if (params.variableTimeSteps()) {
      has_step = HasStep(site, params, time, iteration);
      if (params.varTimeSteps.numElements() == params.batchSize) {
        flags.mask = popops::cast(graph, has_step, params.dataType, iteration, debugContext);
        const Tensor ended = popops::logicalNot(graph, has_step, iteration, debugContext);
        flags.inverse = popops::cast(graph, ended, params.dataType, iteration, debugContext);
      }
    }
    Body body(site, params, time);
    RnnSlice slice;
    for (const Tensor& input : inputs) slice.inputs.push_back(body.Read("an input", input));
    if (interimIn != nullptr) slice.interimIn = body.Read("interimIn", *interimIn);
    if (interimOut != nullptr) slice.interimOut = body.Write("interimOut", *interimOut);
    for (const Tensor& output : outputs) slice.outputs.push_back(body.Write("an output", output));
    std::vector<Tensor> previous;
    for (size_t i = 0; has_step.valid() && i < states.size(); ++i) {
      previous.push_back(poputil::duplicate(graph, states[i], body.before(), debugContext));
    }
    iteration.add(body.before());
    std::vector<Tensor> next = states, more = created;
    iteration.add(loopFn(graph, time, flags, next, slice, more, &init,
                         poplar::DebugNameAndId(debugContext.getPathName())));
    if (next.size() != states.size()) {
      site.Fail("the body leaves " + std::to_string(next.size()) + " states; expected " +
                std::to_string(states.size()) + ".");
    }
    // All new values are there before the first state is written.
    Sequence assign(debugContext);
    for (size_t i = 0; i < states.size(); ++i) {
      site.CheckShape("a new state", next[i], states[i].shape());
      Tensor value = next[i];
      if (has_step.valid()) {
        value = popops::select(graph, value, previous[i], LikeState(site, has_step, states[i]),
                               iteration, debugContext);
      } else if (value == states[i]) {
        continue;
      } else if (states.size() > 1) {
        value = poputil::duplicate(graph, value, iteration, debugContext);
      }
      assign.add(Copy(value, states[i], false, debugContext));
    }
    iteration.add(assign);
    iteration.add(body.after());
    if (stateSequence.output.valid()) {
      const Tensor all = BySteps(site, "the sequence of states", stateSequence.output, steps);
      body.Put(all, states[stateSequence.stateIndex].reshape(all[0].shape()), &iteration);
    }
    return iteration;
  };
  const Sequence loop = popops::countedLoop(graph, steps, step, debugContext);
  prog.add(init);
  prog.add(loop);
  return states;
}

Tensor shiftRnnTensor(Graph& graph, const RnnParams& params, const Tensor& tBase,
                      const Tensor& tSingle, Sequence& prog, unsigned,
                      const DebugContext& debugContext) {
  const CallSite site("popnn::rnn::shiftRnnTensor", graph, debugContext);
  if (tBase.rank() == 0 || tBase.dim(0) != params.maxTimeSteps) {
    site.Fail("tBase has the shape " + tBase.shapeToString() + "; expected " +
              std::to_string(params.maxTimeSteps) + " time steps first.");
  }
  const Tensor out = site.NewLike(tBase.elementType(), tBase);
  prog.add(Copy(tSingle.reshape(out[0].shape()), out[0], false, debugContext));
  prog.add(Copy(tBase.slice(0, tBase.dim(0) - 1), out.slice(1, out.dim(0)), false, debugContext));
  return out;
}

Tensor createInitialState(Graph& graph, const RnnParams& params, bool isOutput, unsigned multiple,
                          unsigned, const DebugContext& debugContext) {
  const size_t size = isOutput ? params.layerSizes.back() : params.layerSizes.front();
  return CallSite("popnn::rnn::createInitialState", graph, debugContext)
      .NewTensor(params.dataType, {multiple, params.batchSize, size}, "state");
}

Tensor createRecurrentTensor(Graph& graph, const RnnParams& params, unsigned size, unsigned,
                             const DebugContext& debugContext) {
  return NewSequence("popnn::rnn::createRecurrentTensor", graph, params, 1, size, debugContext);
}

Tensor createInputTensor(Graph& graph, const RnnParams& params, unsigned,
                         const DebugContext& debugContext) {
  return NewSequence("popnn::rnn::createInputTensor", graph, params, 1, params.layerSizes.front(),
                     debugContext);
}

Tensor createOutputTensor(Graph& graph, const RnnParams& params, unsigned,
                          const DebugContext& debugContext) {
  return NewSequence("popnn::rnn::createOutputTensor", graph, params, 1, params.layerSizes.back(),
                     debugContext);
}

Tensor createOutputTensor(Graph& graph, const RnnParams& params, unsigned multiple, unsigned,
                          const DebugContext& debugContext) {
  return NewSequence("popnn::rnn::createOutputTensor", graph, params, multiple,
                     params.layerSizes.back(), debugContext);
}

}  // namespace popnn::rnn
