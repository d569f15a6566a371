#include "popnn/Lstm.hpp"

#include <algorithm>

#include "popnn/recurrent.h"

namespace popnn {
namespace lstm {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;
using poputil::CallSite;
using poputil::KernelCall;

namespace {

constexpr size_t kUnits = BASIC_LSTM_CELL_NUM_UNITS;
// Intermediates of a step {6, batch, hidden}: the gates, the cell state, and its activation.
constexpr size_t kState = kUnits, kActivated = kUnits + 1, kIntermediates = kUnits + 2;

// The values of a step, by unit.
struct Step {
  Step(const Cell& cell, const float* intermediates)
      : forget(intermediates + cell.slots[BASIC_LSTM_CELL_FORGET_GATE] * cell.state),
        in(intermediates + cell.slots[BASIC_LSTM_CELL_INPUT_GATE] * cell.state),
        candidate(intermediates + cell.slots[BASIC_LSTM_CELL_CANDIDATE] * cell.state),
        out(intermediates + cell.slots[BASIC_LSTM_CELL_OUTPUT_GATE] * cell.state),
        state(intermediates + kState * cell.state),
        activated(intermediates + kActivated * cell.state) {}

  const float *forget, *in, *candidate, *out, *state, *activated;
};

// Inputs: x, output and cell state of before, weights of input and output, biases. Outputs:
// outputs, last cell state, intermediates.
void Forward(const KernelCall& call) {
  const Cell cell(call.attributes);
  const size_t size = cell.state, hidden = cell.hidden;
  const bool full = call.attributes.Bool("full");
  std::vector<float> output(call.in(1), call.in(1) + size), state(call.in(2), call.in(2) + size);
  for (size_t t = 0; t < cell.steps; ++t) {
    float* values = call.out(2) + t * kIntermediates * size;
    for (size_t slot = 0; slot < kUnits; ++slot) {
      float* gate = values + slot * size;
      for (size_t i = 0; i < size; ++i) gate[i] = call.in(5)[slot * hidden + i % hidden];
      MultiplyWeights(call.in(0) + t * cell.batch * cell.input,
                      call.in(3) + slot * cell.input * hidden, cell.batch, cell.input, hidden, true,
                      gate);
      MultiplyWeights(output.data(), call.in(4) + slot * hidden * hidden, cell.batch, hidden,
                      hidden, true, gate);
      const bool candidate = slot == cell.slots[BASIC_LSTM_CELL_CANDIDATE];
      const Function activate = candidate ? cell.output.value : cell.gate.value;
      for (size_t i = 0; i < size; ++i) gate[i] = activate(gate[i]);
    }
    const Step step(cell, values);
    float* activated = values + kActivated * size;
    for (size_t i = 0; i < size; ++i) {
      state[i] = step.forget[i] * state[i] + step.in[i] * step.candidate[i];
      activated[i] = cell.output.value(state[i]);
      output[i] = step.out[i] * activated[i];
    }
    std::copy(state.begin(), state.end(), values + kState * size);
    if (full) std::copy(output.begin(), output.end(), call.out(0) + t * size);
  }
  if (!full) std::copy(output.begin(), output.end(), call.out(0));
  std::copy(state.begin(), state.end(), call.out(1));
}

// Inputs: cell state of before, weights of input and output, intermediates, gradients of outputs,
// and of last output and state if they are given. Outputs: gradients of the first output and cell
// state, of gates before their activation {time, 4, batch, hidden}, of the input.
void Backward(const KernelCall& call) {
  const Cell cell(call.attributes);
  const size_t size = cell.state, hidden = cell.hidden;
  const bool full = call.attributes.Bool("full"), last = call.inputs.size() > 5;
  std::vector<float> d_output(size, 0.0f), d_state(size, 0.0f);
  if (last) {
    std::copy(call.in(5), call.in(5) + size, d_output.begin());
    std::copy(call.in(6), call.in(6) + size, d_state.begin());
  }
  std::fill(call.out(3), call.out(3) + call.OutSize(3), 0.0f);
  for (size_t t = cell.steps; t-- > 0;) {
    const float* values = call.in(3) + t * kIntermediates * size;
    const Step step(cell, values);
    const float* before = t == 0 ? call.in(0) : values - kIntermediates * size + kState * size;
    float* gates = call.out(2) + t * kUnits * size;
    float* d_forget = gates + cell.slots[BASIC_LSTM_CELL_FORGET_GATE] * size;
    float* d_in = gates + cell.slots[BASIC_LSTM_CELL_INPUT_GATE] * size;
    float* d_candidate = gates + cell.slots[BASIC_LSTM_CELL_CANDIDATE] * size;
    float* d_out = gates + cell.slots[BASIC_LSTM_CELL_OUTPUT_GATE] * size;
    if (full || t + 1 == cell.steps) {
      const float* gradient = call.in(4) + (full ? t * size : 0);
      for (size_t i = 0; i < size; ++i) d_output[i] += gradient[i];
    }
    for (size_t i = 0; i < size; ++i) {
      d_state[i] += d_output[i] * step.out[i] * cell.output.derivative(step.activated[i]);
      d_out[i] = d_output[i] * step.activated[i] * cell.gate.derivative(step.out[i]);
      d_forget[i] = d_state[i] * before[i] * cell.gate.derivative(step.forget[i]);
      d_in[i] = d_state[i] * step.candidate[i] * cell.gate.derivative(step.in[i]);
      d_candidate[i] = d_state[i] * step.in[i] * cell.output.derivative(step.candidate[i]);
      d_state[i] *= step.forget[i];
    }
    std::fill(d_output.begin(), d_output.end(), 0.0f);
    for (size_t slot = 0; slot < kUnits; ++slot) {
      MultiplyTransposed(gates + slot * size, call.in(2) + slot * hidden * hidden, cell.batch,
                         hidden, hidden, d_output.data());
      MultiplyTransposed(gates + slot * size, call.in(1) + slot * cell.input * hidden, cell.batch,
                         cell.input, hidden, call.out(3) + t * cell.batch * cell.input);
    }
  }
  std::copy(d_output.begin(), d_output.end(), call.out(0));
  std::copy(d_state.begin(), d_state.end(), call.out(1));
}

// Inputs: x, output of before, intermediates, gradients of gates. Outputs: gradients of weights.
void WeightGradients(const KernelCall& call) {
  const Cell cell(call.attributes);
  const size_t size = cell.state, hidden = cell.hidden;
  for (size_t i = 0; i < 3; ++i) std::fill(call.out(i), call.out(i) + call.OutSize(i), 0.0f);
  std::vector<float> output(call.in(1), call.in(1) + size);
  for (size_t t = 0; t < cell.steps; ++t) {
    const float* gates = call.in(3) + t * kUnits * size;
    for (size_t slot = 0; slot < kUnits; ++slot) {
      AddWeightGradient(call.in(0) + t * cell.batch * cell.input, gates + slot * size, cell.batch,
                        cell.input, hidden, call.out(0) + slot * cell.input * hidden);
      AddWeightGradient(output.data(), gates + slot * size, cell.batch, hidden, hidden,
                        call.out(1) + slot * hidden * hidden);
      AddRows(gates + slot * size, cell.batch, hidden, call.out(2) + slot * hidden);
    }
    const Step step(cell, call.in(2) + t * kIntermediates * size);
    for (size_t i = 0; i < size; ++i) output[i] = step.out[i] * step.activated[i];
  }
}

const poputil::FloatKernelRegistration kForward("popnn::lstmFwd", Forward);
const poputil::FloatKernelRegistration kBackward("popnn::lstmBwd", Backward);
const poputil::FloatKernelRegistration kWeights("popnn::lstmWU", WeightGradients);
const poplar::core::WorkRegistration kForwardWork("popnn::lstmFwd", ForwardWork);
const poplar::core::WorkRegistration kBackwardWork("popnn::lstmBwd", BackwardWork);
const poplar::core::WorkRegistration kWeightWork("popnn::lstmWU", WeightWork);

void CheckWeights(const CallSite& site, const LstmParams& params, const LstmWeights& weights) {
  const size_t in = params.rnn.layerSizes[0], hidden = params.rnn.layerSizes[1];
  site.CheckShape("inputWeights", weights.inputWeights, {kUnits, in, hidden});
  site.CheckShape("outputWeights", weights.outputWeights, {kUnits, hidden, hidden});
  site.CheckShape("biases", weights.biases, {kUnits, hidden});
}

void CheckState(const CallSite& site, const LstmParams& params, const LstmState& state) {
  site.CheckShape("the output of before", state.output, StateShape(params));
  site.CheckShape("the cell state of before", state.cellState, StateShape(params));
}

Tensor NewState(const char* function, Graph& graph, const LstmParams& params,
                const DebugContext& debug, const OptionFlags& options) {
  return LayerSite(function, graph, params, debug, options)
      .NewTensor(params.rnn.dataType, StateShape(params), "state");
}

}  // namespace

const std::vector<BasicLstmCellUnit> getDefaultBasicLstmCellOrder() {
  return {BASIC_LSTM_CELL_FORGET_GATE, BASIC_LSTM_CELL_INPUT_GATE, BASIC_LSTM_CELL_CANDIDATE,
          BASIC_LSTM_CELL_OUTPUT_GATE};
}

Tensor createInput(Graph& graph, const LstmParams& params, const DebugContext& debugContext,
                   const OptionFlags& options, poplin::PlanningCache*) {
  return LayerSite("popnn::lstm::createInput", graph, params, debugContext, options)
      .NewTensor(params.rnn.dataType, SequenceShape(params, params.rnn.layerSizes[0]), "input");
}

Tensor createInitialOutput(Graph& graph, const LstmParams& params, const DebugContext& debugContext,
                           const OptionFlags& options, poplin::PlanningCache*) {
  return NewState("popnn::lstm::createInitialOutput", graph, params, debugContext, options);
}

Tensor createInitialCellState(Graph& graph, const LstmParams& params,
                              const DebugContext& debugContext, const OptionFlags& options,
                              poplin::PlanningCache*) {
  return NewState("popnn::lstm::createInitialCellState", graph, params, debugContext, options);
}

LstmState createInitialState(Graph& graph, const LstmParams& params,
                             const DebugContext& debugContext, const OptionFlags& options,
                             poplin::PlanningCache* cache) {
  return {createInitialOutput(graph, params, debugContext, options, cache),
          createInitialCellState(graph, params, debugContext, options, cache)};
}

void zeroInitialState(Graph& graph, const LstmState& initialState, Sequence& prog,
                      const DebugContext& debugContext) {
  for (const Tensor& t : {initialState.output, initialState.cellState}) {
    const Tensor zero = graph.addConstant<float>(t.elementType(), {}, 0.0f, debugContext);
    graph.setTileMapping(zero, 0);
    const unsigned count = static_cast<unsigned>(t.numElements());
    prog.add(poplar::program::Copy(zero.expand({0}).broadcast(count, 0), t.flatten(), false,
                                   debugContext));
  }
}

std::pair<Tensor, Tensor> createWeightsKernel(Graph& graph, const LstmParams& params,
                                              const DebugContext& debugContext,
                                              const OptionFlags& options, poplin::PlanningCache*) {
  const CallSite site =
      LayerSite("popnn::lstm::createWeightsKernel", graph, params, debugContext, options);
  const size_t in = params.rnn.layerSizes[0], hidden = params.rnn.layerSizes[1];
  return {site.NewTensor(params.rnn.dataType, {kUnits, in, hidden}, "inputWeights"),
          site.NewTensor(params.rnn.dataType, {kUnits, hidden, hidden}, "outputWeights")};
}

Tensor createWeightsBiases(Graph& graph, const LstmParams& params, const DebugContext& debugContext,
                           const OptionFlags& options, poplin::PlanningCache*) {
  return LayerSite("popnn::lstm::createWeightsBiases", graph, params, debugContext, options)
      .NewTensor(params.rnn.dataType, {kUnits, params.rnn.layerSizes[1]}, "biases");
}

LstmWeights createWeights(Graph& graph, const LstmParams& params, const DebugContext& debugContext,
                          const OptionFlags& options, poplin::PlanningCache* cache) {
  const auto kernels = createWeightsKernel(graph, params, debugContext, options, cache);
  return {kernels.first, kernels.second,
          createWeightsBiases(graph, params, debugContext, options, cache)};
}

std::pair<Tensor, Tensor> lstmFwd(Graph& graph, const LstmParams& params,
                                  const LstmState& stateInit, const Tensor& in,
                                  const LstmWeights& weights, Tensor* intermediates, Sequence& prog,
                                  const DebugContext& debugContext, const OptionFlags& options,
                                  poplin::PlanningCache*) {
  const CallSite site = LayerSite("popnn::lstm::lstmFwd", graph, params, debugContext, options);
  site.CheckShape("in", in, SequenceShape(params, params.rnn.layerSizes[0]));
  CheckState(site, params, stateInit);
  CheckWeights(site, params, weights);
  const poplar::Type type = params.rnn.dataType;
  const size_t batch = params.rnn.batchSize, hidden = params.rnn.layerSizes[1];
  const Tensor output = site.NewTensor(type, OutputShape(params), "output");
  const Tensor state = site.NewTensor(type, StateShape(params), "cellState");
  // In float, so that nothing of a step is rounded between the passes.
  const Tensor values = site.NewTensor(
      poplar::FLOAT, {params.rnn.timeSteps, kIntermediates, batch, hidden}, "intermediates");
  site.Add(prog, "popnn::lstmFwd", CellAttributes(params),
           {in, stateInit.output, stateInit.cellState, weights.inputWeights, weights.outputWeights,
            weights.biases},
           {output, state, values});
  if (intermediates != nullptr) *intermediates = values;
  return {output, state};
}

LstmState lstmBwd(Graph& graph, const LstmParams& params, Sequence& prog,
                  const LstmState& fwdStateInit, const Tensor& fwdIntermediates,
                  const LstmWeights& weights, const Tensor& input, const Tensor&,
                  const Tensor& outputGrad, const LstmState* lastStepStateGrad, Tensor* inputGrad,
                  Tensor* bwdIntermediates, const DebugContext& debugContext,
                  const OptionFlags& options, poplin::PlanningCache*) {
  const CallSite site = LayerSite("popnn::lstm::lstmBwd", graph, params, debugContext, options);
  CheckState(site, params, fwdStateInit);
  CheckWeights(site, params, weights);
  site.CheckShape("outputGrad", outputGrad, OutputShape(params));
  const poplar::Type type = params.rnn.dataType;
  const LstmState result{site.NewTensor(type, StateShape(params), "outputGrad"),
                         site.NewTensor(type, StateShape(params), "cellStateGrad")};
  const Tensor gates = site.NewTensor(
      poplar::FLOAT, {params.rnn.timeSteps, kUnits, params.rnn.batchSize, params.rnn.layerSizes[1]},
      "gatesGrad");
  const Tensor gradient = site.NewTensor(type, input.shape(), "inputGrad");
  std::vector<Tensor> inputs = {fwdStateInit.cellState, weights.inputWeights, weights.outputWeights,
                                fwdIntermediates, outputGrad};
  if (lastStepStateGrad != nullptr) {
    CheckState(site, params, *lastStepStateGrad);
    inputs.push_back(lastStepStateGrad->output);
    inputs.push_back(lastStepStateGrad->cellState);
  }
  site.Add(prog, "popnn::lstmBwd", CellAttributes(params), inputs,
           {result.output, result.cellState, gates, gradient});
  if (inputGrad != nullptr) *inputGrad = gradient;
  if (bwdIntermediates != nullptr) *bwdIntermediates = gates;
  return result;
}

LstmWeights lstmWU(Graph& graph, const LstmParams& params, Sequence& prog,
                   const LstmState& fwdStateInit, const Tensor& fwdIntermediates,
                   const Tensor& bwdIntermediates, const LstmWeights& weights, const Tensor& input,
                   const Tensor&, const DebugContext& debugContext, const OptionFlags& options,
                   poplin::PlanningCache*) {
  const CallSite site = LayerSite("popnn::lstm::lstmWU", graph, params, debugContext, options);
  CheckWeights(site, params, weights);
  const LstmWeights result{
      site.NewLike(params.rnn.dataType, weights.inputWeights, "inputWeightsGrad"),
      site.NewLike(params.rnn.dataType, weights.outputWeights, "outputWeightsGrad"),
      site.NewLike(params.rnn.dataType, weights.biases, "biasesGrad")};
  site.Add(prog, "popnn::lstmWU", CellAttributes(params),
           {input, fwdStateInit.output, fwdIntermediates, bwdIntermediates},
           {result.inputWeights, result.outputWeights, result.biases});
  return result;
}

LstmState lstmBwdWithWU(Graph& graph, const LstmParams& params, Sequence& prog,
                        const LstmState& fwdStateInit, const Tensor& fwdIntermediates,
                        const LstmWeights& weights, const Tensor& input, const Tensor& output,
                        const Tensor& outputGrad, const LstmState* lastStepStateGrad,
                        Tensor* inputGrad, LstmWeights& weightsGrad,
                        const DebugContext& debugContext, const OptionFlags& options,
                        poplin::PlanningCache* cache) {
  Tensor gates;
  const LstmState state =
      lstmBwd(graph, params, prog, fwdStateInit, fwdIntermediates, weights, input, output,
              outputGrad, lastStepStateGrad, inputGrad, &gates, debugContext, options, cache);
  weightsGrad = lstmWU(graph, params, prog, fwdStateInit, fwdIntermediates, gates, weights, input,
                       output, debugContext, options, cache);
  return state;
}

uint64_t getBasicLstmCellFwdFlops(const LstmParams& params) {
  return 2 * LayerProducts(params.rnn, kUnits);
}
uint64_t getBasicLstmCellBwdFlops(const LstmParams& params) {
  return 2 * LayerProducts(params.rnn, kUnits);
}
uint64_t getBasicLstmCellWuFlops(const LstmParams& params) {
  return 2 * LayerProducts(params.rnn, kUnits);
}

std::vector<std::pair<poplin::MatMulParams, OptionFlags>> getMatMulPrePlanParameters(
    LstmParams, OptionFlags opts) {
  CheckRecurrentOptions("popnn::lstm::getMatMulPrePlanParameters", opts);
  return {};
}

}  // namespace lstm
}  // namespace popnn
