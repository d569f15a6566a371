#include <algorithm>
#include <string>
#include <vector>

#include "popnn/Recurrent.hpp"
#include "popnn/recurrent.h"
#include "popops/Reduce.hpp"
#include "popops/Zero.hpp"

namespace popnn::rnn {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using poputil::KernelCall;

namespace {

// ---- kernels

// Inputs: weighted input {time, batch, output}, state before, weights of the feedback, biases.
void Forward(const KernelCall& call) {
  const Activation activation(call.attributes.Int("activation"));
  const std::vector<size_t>& shape = call.OutShape(0);
  const size_t batch = shape[1], size = shape[2], state = batch * size;
  const float* before = call.in(1);
  for (size_t t = 0; t < shape[0]; ++t) {
    float* out = call.out(0) + t * state;
    for (size_t i = 0; i < state; ++i) out[i] = call.in(0)[t * state + i] + call.in(3)[i % size];
    MultiplyWeights(before, call.in(2), batch, size, size, true, out);
    for (size_t i = 0; i < state; ++i) out[i] = activation.value(out[i]);
    before = out;
  }
}

// Inputs: outputs {time, batch, output}, their gradients, state of the step after the last, weights
// of the feedback. The result are the states of all steps.
void Backward(const KernelCall& call) {
  const Activation activation(call.attributes.Int("activation"));
  const std::vector<size_t>& shape = call.OutShape(0);
  const size_t batch = shape[1], size = shape[2], state = batch * size;
  const float* after = call.in(2);
  for (size_t t = shape[0]; t-- > 0;) {
    float* out = call.out(0) + t * state;
    std::copy_n(call.in(1) + t * state, state, out);
    MultiplyTransposed(after, call.in(3), batch, size, size, out);
    for (size_t i = 0; i < state; ++i) out[i] *= activation.derivative(call.in(0)[t * state + i]);
    after = out;
  }
}

const poputil::FloatKernelRegistration kForward("popnn::rnn::forwardIterate", Forward);
const poputil::FloatKernelRegistration kBackward("popnn::rnn::backwardGradientStep", Backward);

poplar::core::MatrixWork WorkOfSteps(const poplar::core::KernelSpec& spec) {
  const std::vector<size_t>& shape = spec.outputs[0].shape;
  return {shape[0], 1, shape[1], shape[2], shape[2]};
}

const poplar::core::WorkRegistration kForwardWork("popnn::rnn::forwardIterate", WorkOfSteps);
const poplar::core::WorkRegistration kBackwardWork("popnn::rnn::backwardGradientStep", WorkOfSteps);

// ---- calls

// A sequence {time, batch, size} as the rows of a matrix.
Tensor Rows(const Tensor& sequence) { return sequence.flatten(0, sequence.rank() - 1); }

Tensor Multiply(const CallSite& site, const Tensor& a, const Tensor& b, Sequence& prog) {
  return poplin::matMul(site.graph(), a, b, prog, site.debug());
}

// {time, batch, rows of the weights} = states {time, batch, columns} * weights'
Tensor InputGradient(const CallSite& site, const Tensor& states, const Tensor& weights,
                     Sequence& prog) {
  std::vector<size_t> shape = states.shape();
  shape.back() = weights.dim(0);
  return Multiply(site, Rows(states), weights.transpose(), prog).reshape(shape);
}

Tensor Iterate(const CallSite& site, const Tensor& in, const Tensor& state, const Tensor& weights,
               const Tensor& biases, NonLinearityType type, Sequence& prog) {
  site.CheckFloating("the weighted input", in);
  site.CheckRank("the weighted input", in, 3);
  CheckActivation(site, type);
  site.CheckShape("the state", state, {in.dim(1), in.dim(2)});
  site.CheckShape("the weights of the feedback", weights, {in.dim(2), in.dim(2)});
  site.CheckShape("the biases", biases, {in.dim(2)});
  const Tensor out = site.NewLike(in.elementType(), in);
  site.Add(prog, "popnn::rnn::forwardIterate",
           Attributes().Set("activation", static_cast<int>(type)), {in, state, weights, biases},
           {out});
  return out;
}

// States of the backward pass of all steps; operands are {time, batch, output}.
Tensor IterateBack(const CallSite& site, const Tensor& outputs, const Tensor& gradients,
                   const Tensor& state, const Tensor& weights, NonLinearityType type,
                   Sequence& prog) {
  site.CheckFloating("the output", outputs);
  CheckActivation(site, type);
  site.CheckShape("the gradient of the output", gradients, outputs.shape());
  site.CheckShape("the state", state, {outputs.dim(1), outputs.dim(2)});
  site.CheckShape("the weights of the feedback", weights, {outputs.dim(2), outputs.dim(2)});
  const Tensor states = site.NewLike(outputs.elementType(), outputs, "states");
  site.Add(prog, "popnn::rnn::backwardGradientStep",
           Attributes().Set("activation", static_cast<int>(type)),
           {outputs, gradients, state, weights}, {states});
  return states;
}

Tensor NewState(const char* function, Graph& graph, const Type& type, unsigned batch, unsigned size,
                bool zero, Sequence& prog, const DebugContext& debug) {
  const Tensor state = CallSite(function, graph, debug).NewTensor(type, {batch, size}, "state");
  if (zero) popops::zero(graph, state, prog, debug);
  return state;
}

Tensor WeightedInput(const CallSite& site, const Tensor& in, const Tensor& weights,
                     Sequence& prog) {
  site.CheckRank("the input", in, 3);
  site.CheckRank("the weights of the input", weights, 2);
  if (weights.dim(0) != in.dim(2)) {
    site.Fail("the weights of the input have the shape " + weights.shapeToString() + "; expected " +
              std::to_string(in.dim(2)) + " rows, one for each element of the input.");
  }
  return Multiply(site, Rows(in), weights, prog).reshape({in.dim(0), in.dim(1), weights.dim(1)});
}

uint64_t Flops(uint64_t steps, uint64_t batch, uint64_t output, uint64_t inputs) {
  return 2 * steps * batch * output * inputs;
}

}  // namespace

std::vector<std::pair<poplin::MatMulParams, OptionFlags>> getMatMulPrePlanParameters(
    size_t, size_t, size_t, size_t, const Type&, const Type&, bool, bool) {
  return {};
}

uint64_t getFwdFlops(unsigned sequenceSize, unsigned batchSize, unsigned inputSize,
                     unsigned outputSize, bool weightInput) {
  return Flops(sequenceSize, batchSize, outputSize, outputSize + (weightInput ? inputSize : 0));
}

uint64_t getBwdFlops(unsigned sequenceSize, unsigned batchSize, unsigned inputSize,
                     unsigned outputSize, bool calcInputGrad) {
  return Flops(sequenceSize, batchSize, outputSize, outputSize + (calcInputGrad ? inputSize : 0));
}

uint64_t getWuFlops(unsigned sequenceSize, unsigned batchSize, unsigned inputSize,
                    unsigned outputSize) {
  return Flops(sequenceSize, batchSize, outputSize, inputSize + outputSize);
}

Tensor createInput(Graph& graph, unsigned numSteps, unsigned batchSize, unsigned inputSize,
                   unsigned, const Type& dType, const Type&, bool, const DebugContext& debugContext,
                   poplin::PlanningCache*) {
  return CallSite("popnn::rnn::createInput", graph, debugContext)
      .NewTensor(dType, {numSteps, batchSize, inputSize}, "input");
}

Tensor createWeightsInput(Graph& graph, unsigned, unsigned, unsigned inputSize, unsigned outputSize,
                          const Type& dType, const Type&, bool, const DebugContext& debugContext,
                          poplin::PlanningCache*) {
  return CallSite("popnn::rnn::createWeightsInput", graph, debugContext)
      .NewTensor(dType, {inputSize, outputSize}, "weights");
}

Tensor createWeightsFeedback(Graph& graph, unsigned, unsigned outputSize, const Type& dType,
                             const Type&, bool, const DebugContext& debugContext,
                             poplin::PlanningCache*) {
  return CallSite("popnn::rnn::createWeightsFeedback", graph, debugContext)
      .NewTensor(dType, {outputSize, outputSize}, "weights");
}

Tensor createFwdState(Graph& graph, const Type& dType, unsigned batchSize, unsigned outputSize,
                      Sequence& prog, bool initState, bool, const DebugContext& debugContext,
                      poplin::PlanningCache*) {
  return NewState("popnn::rnn::createFwdState", graph, dType, batchSize, outputSize, initState,
                  prog, debugContext);
}

Tensor createBwdState(Graph& graph, const Type& dType, unsigned batchSize, unsigned outputSize,
                      Sequence& prog, const DebugContext& debugContext, poplin::PlanningCache*) {
  return NewState("popnn::rnn::createBwdState", graph, dType, batchSize, outputSize, true, prog,
                  debugContext);
}

Tensor getOutputFromFwdState(const Tensor& fwdState) { return fwdState; }

Tensor forwardWeightInput(Graph& graph, const Tensor& actIn, const Tensor& weights, Sequence& prog,
                          const Type&, bool, const DebugContext& debugContext,
                          poplin::PlanningCache*) {
  return WeightedInput(CallSite("popnn::rnn::forwardWeightInput", graph, debugContext), actIn,
                       weights, prog);
}

Tensor forwardIterate(Graph& graph, const Tensor& feedFwdIn, const Tensor& initState,
                      const Tensor& feedbackWeights, const Tensor& biases, Sequence& prog,
                      NonLinearityType nonLinearityType, const Type&, bool,
                      const DebugContext& debugContext, poplin::PlanningCache*) {
  return Iterate(CallSite("popnn::rnn::forwardIterate", graph, debugContext), feedFwdIn, initState,
                 feedbackWeights, biases, nonLinearityType, prog);
}

Tensor backwardGradientStep(Graph& graph, const Tensor& nextLayerGrad, const Tensor& bwdState,
                            const Tensor& actOut, const Tensor& weightsFeedback, Sequence& prog,
                            NonLinearityType nonLinearityType, const Type&,
                            const DebugContext& debugContext, poplin::PlanningCache*) {
  const CallSite site("popnn::rnn::backwardGradientStep", graph, debugContext);
  site.CheckRank("actOut", actOut, 2);
  return IterateBack(site, actOut.expand({0}), nextLayerGrad.expand({0}), bwdState, weightsFeedback,
                     nonLinearityType, prog)[0];
}

std::pair<Tensor, Tensor> backwardGradientStep(
    Graph& graph, const Tensor& nextLayerGrad, const Tensor& bwdState, const Tensor& actOut,
    const Tensor& weightsInput, const Tensor& weightsFeedback, Sequence& prog,
    NonLinearityType nonLinearityType, const Type& partialsType, const DebugContext& debugContext,
    poplin::PlanningCache* cache) {
  const Tensor state =
      backwardGradientStep(graph, nextLayerGrad, bwdState, actOut, weightsFeedback, prog,
                           nonLinearityType, partialsType, debugContext, cache);
  const CallSite site("popnn::rnn::backwardGradientStep", graph, debugContext);
  return {InputGradient(site, state, weightsInput, prog), state};
}

void paramDeltaUpdate(Graph& graph, const Tensor& bwdState, const Tensor& actIn,
                      const Tensor& prevOut, Tensor& weightsInputDeltasAcc,
                      Tensor& weightsFeedbackDeltasAcc, Tensor& biasDeltasAcc, Sequence& prog,
                      const Type&, const DebugContext& debugContext, poplin::PlanningCache* cache) {
  poplin::matMulAcc(graph, weightsInputDeltasAcc, 1.0f, actIn.transpose(), bwdState, prog,
                    debugContext, {}, cache);
  poplin::matMulAcc(graph, weightsFeedbackDeltasAcc, 1.0f, prevOut.transpose(), bwdState, prog,
                    debugContext, {}, cache);
  popops::reduceWithOutput(graph, bwdState, biasDeltasAcc, {0}, {popops::Operation::ADD, true},
                           prog, debugContext);
}

Tensor rnnFwdSequence(Graph& graph, Sequence& prog, const Tensor& fwdStateInit,
                      const Tensor* weightedIn, const Tensor& biases, const Tensor& feedFwdWeights,
                      const Tensor& feedbackWeights, const Tensor& prevLayerActs,
                      const NonLinearityType& nonLinearityType, const Type&, bool,
                      const DebugContext& debugContext, poplin::PlanningCache*) {
  const CallSite site("popnn::rnn::rnnFwdSequence", graph, debugContext);
  const Tensor in = weightedIn != nullptr
                        ? *weightedIn
                        : WeightedInput(site, prevLayerActs, feedFwdWeights, prog);
  return Iterate(site, in, fwdStateInit, feedbackWeights, biases, nonLinearityType, prog);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> rnnBwdSequence(
    Graph& graph, bool doWU, bool ignoreInputGradientCalc, Sequence& prog,
    const Tensor& fwdStateInit, const Tensor& fwdState, const Tensor& biases,
    const Tensor& feedFwdWeights, const Tensor& feedbackWeights, const Tensor& outGradient,
    const Tensor& actIn, const NonLinearityType& nonLinearityType, const Type&,
    const DebugContext& debugContext, poplin::PlanningCache* cache) {
  const CallSite site("popnn::rnn::rnnBwdSequence", graph, debugContext);
  site.CheckRank("fwdState", fwdState, 3);
  const unsigned batch = static_cast<unsigned>(fwdState.dim(1));
  const unsigned size = static_cast<unsigned>(fwdState.dim(2));
  const Tensor last =
      createBwdState(graph, fwdState.elementType(), batch, size, prog, debugContext, cache);
  const Tensor states =
      IterateBack(site, fwdState, outGradient, last, feedbackWeights, nonLinearityType, prog);
  Tensor input, of_input, of_feedback, of_biases;
  if (!ignoreInputGradientCalc) input = InputGradient(site, states, feedFwdWeights, prog);
  if (doWU) {
    const Tensor before = concat(fwdStateInit.expand({0}), fwdState.slice(0, fwdState.dim(0) - 1));
    of_input = Multiply(site, Rows(actIn).transpose(), Rows(states), prog);
    of_feedback = Multiply(site, Rows(before).transpose(), Rows(states), prog);
    of_biases = popops::reduce(graph, Rows(states), biases.elementType(), {0},
                               popops::Operation::ADD, prog, debugContext);
  }
  return std::make_tuple(input, of_input, of_feedback, of_biases);
}

}  // namespace popnn::rnn
