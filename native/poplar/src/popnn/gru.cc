#include "popnn/Gru.hpp"

#include <algorithm>

#include "popnn/recurrent.h"

namespace popnn {
namespace gru {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using poputil::KernelCall;

namespace {

constexpr size_t kUnits = BASIC_GRU_CELL_NUM_UNITS;
// Intermediates of a step {5, batch, hidden}: reset gate, update gate and candidate, the product of
// the state that the reset gate scales (resetAfter), and the output.
constexpr size_t kProduct = kUnits, kOutput = kUnits + 1, kIntermediates = kUnits + 2;
// Gradients of a step {4, batch, hidden}: of the units before their activation, and of the product.
constexpr size_t kGradients = kUnits + 1;

// The places of a step's values, by unit.
template <typename Float>
struct Step {
  Step(const Cell& cell, Float* values)
      : reset(values + cell.slots[BASIC_GRU_CELL_RESET_GATE] * cell.state),
        update(values + cell.slots[BASIC_GRU_CELL_UPDATE_GATE] * cell.state),
        candidate(values + cell.slots[BASIC_GRU_CELL_CANDIDATE] * cell.state),
        product(values + kProduct * cell.state) {}

  Float *reset, *update, *candidate, *product;
};

struct Gru : Cell {
  explicit Gru(const Attributes& attributes)
      : Cell(attributes),
        reset_after(attributes.Bool("reset_after")),
        attention(attributes.Bool("attention")) {}

  size_t candidate() const { return slots[BASIC_GRU_CELL_CANDIDATE]; }

  const bool reset_after, attention;
};

// The part of the update gate that attention leaves, by element of a state.
float Kept(const Gru& gru, const float* scores, size_t t, size_t element) {
  return gru.attention ? 1 - scores[element / gru.hidden * gru.steps + t] : 1.0f;
}

// Inputs: x, output of before, weights of input and output, biases, and attention scores. Outputs:
// outputs, intermediates.
void Forward(const KernelCall& call) {
  const Gru gru(call.attributes);
  const size_t size = gru.state, hidden = gru.hidden;
  const bool full = call.attributes.Bool("full");
  std::vector<float> output(call.in(1), call.in(1) + size), scaled(size);
  const float* scores = gru.attention ? call.in(5) : nullptr;
  const size_t biases = gru.reset_after ? 2 : 1;
  const auto bias = [&](size_t slot, size_t which, size_t i) {
    return call.in(4)[(slot * biases + which) * hidden + i % hidden];
  };
  for (size_t t = 0; t < gru.steps; ++t) {
    float* values = call.out(1) + t * kIntermediates * size;
    const Step<float> step(gru, values);
    const auto add_state = [&](const float* state, size_t slot, float* out) {
      MultiplyWeights(state, call.in(3) + slot * hidden * hidden, gru.batch, hidden, hidden, true,
                      out);
    };
    for (size_t slot = 0; slot < kUnits; ++slot) {
      float* unit = values + slot * size;
      for (size_t i = 0; i < size; ++i) unit[i] = bias(slot, 0, i);
      MultiplyWeights(call.in(0) + t * gru.batch * gru.input,
                      call.in(2) + slot * gru.input * hidden, gru.batch, gru.input, hidden, true,
                      unit);
      if (slot == gru.candidate()) continue;
      if (gru.reset_after) {
        for (size_t i = 0; i < size; ++i) unit[i] += bias(slot, 1, i);
      }
      add_state(output.data(), slot, unit);
      for (size_t i = 0; i < size; ++i) unit[i] = gru.gate.value(unit[i]);
    }
    if (gru.reset_after) {
      for (size_t i = 0; i < size; ++i) step.product[i] = bias(gru.candidate(), 1, i);
      add_state(output.data(), gru.candidate(), step.product);
      for (size_t i = 0; i < size; ++i) step.candidate[i] += step.reset[i] * step.product[i];
    } else {
      for (size_t i = 0; i < size; ++i) scaled[i] = step.reset[i] * output[i];
      add_state(scaled.data(), gru.candidate(), step.candidate);
    }
    for (size_t i = 0; i < size; ++i) {
      step.candidate[i] = gru.output.value(step.candidate[i]);
      const float update = step.update[i] * Kept(gru, scores, t, i);
      output[i] = update * output[i] + (1 - update) * step.candidate[i];
    }
    std::copy(output.begin(), output.end(), values + kOutput * size);
    if (full) std::copy(output.begin(), output.end(), call.out(0) + t * size);
  }
  if (!full) std::copy(output.begin(), output.end(), call.out(0));
}

// Inputs: output of before, weights of input and output, intermediates, gradients of outputs, and
// attention scores. Outputs: gradients of the first output, of units, of the input, of the scores.
void Backward(const KernelCall& call) {
  const Gru gru(call.attributes);
  const size_t size = gru.state, hidden = gru.hidden;
  const bool full = call.attributes.Bool("full");
  const float* scores = gru.attention ? call.in(5) : nullptr;
  std::vector<float> d_output(size, 0.0f), d_before(size), d_scaled(size);
  std::fill(call.out(2), call.out(2) + call.OutSize(2), 0.0f);
  if (gru.attention) std::fill(call.out(3), call.out(3) + call.OutSize(3), 0.0f);
  for (size_t t = gru.steps; t-- > 0;) {
    const float* values = call.in(3) + t * kIntermediates * size;
    const Step<const float> step(gru, values);
    const float* before = t == 0 ? call.in(0) : values - kIntermediates * size + kOutput * size;
    float* gradients = call.out(1) + t * kGradients * size;
    const Step<float> d(gru, gradients);
    if (full || t + 1 == gru.steps) {
      const float* gradient = call.in(4) + (full ? t * size : 0);
      for (size_t i = 0; i < size; ++i) d_output[i] += gradient[i];
    }
    for (size_t i = 0; i < size; ++i) {
      const float kept = Kept(gru, scores, t, i), update = step.update[i] * kept;
      const float d_update = d_output[i] * (before[i] - step.candidate[i]);
      d.candidate[i] = d_output[i] * (1 - update) * gru.output.derivative(step.candidate[i]);
      d.update[i] = d_update * kept * gru.gate.derivative(step.update[i]);
      d_before[i] = d_output[i] * update;
      if (gru.attention) call.out(3)[i / hidden * gru.steps + t] -= d_update * step.update[i];
    }
    const auto add_transposed = [&](const float* gradient, size_t slot, float* out) {
      MultiplyTransposed(gradient, call.in(2) + slot * hidden * hidden, gru.batch, hidden, hidden,
                         out);
    };
    if (gru.reset_after) {
      for (size_t i = 0; i < size; ++i) {
        d.product[i] = d.candidate[i] * step.reset[i];
        d.reset[i] = d.candidate[i] * step.product[i] * gru.gate.derivative(step.reset[i]);
      }
      add_transposed(d.product, gru.candidate(), d_before.data());
    } else {
      std::fill(d_scaled.begin(), d_scaled.end(), 0.0f);
      add_transposed(d.candidate, gru.candidate(), d_scaled.data());
      for (size_t i = 0; i < size; ++i) {
        d.product[i] = 0;
        d.reset[i] = d_scaled[i] * before[i] * gru.gate.derivative(step.reset[i]);
        d_before[i] += d_scaled[i] * step.reset[i];
      }
    }
    add_transposed(d.reset, gru.slots[BASIC_GRU_CELL_RESET_GATE], d_before.data());
    add_transposed(d.update, gru.slots[BASIC_GRU_CELL_UPDATE_GATE], d_before.data());
    for (size_t slot = 0; slot < kUnits; ++slot) {
      MultiplyTransposed(gradients + slot * size, call.in(1) + slot * gru.input * hidden, gru.batch,
                         gru.input, hidden, call.out(2) + t * gru.batch * gru.input);
    }
    d_output = d_before;
  }
  std::copy(d_output.begin(), d_output.end(), call.out(0));
}

// Inputs: x, output of before, intermediates, gradients of units. Outputs: gradients of weights.
void WeightGradients(const KernelCall& call) {
  const Gru gru(call.attributes);
  const size_t size = gru.state, hidden = gru.hidden, biases = gru.reset_after ? 2 : 1;
  for (size_t i = 0; i < 3; ++i) std::fill(call.out(i), call.out(i) + call.OutSize(i), 0.0f);
  std::vector<float> scaled(size);
  for (size_t t = 0; t < gru.steps; ++t) {
    const float* values = call.in(2) + t * kIntermediates * size;
    const float* gradients = call.in(3) + t * kGradients * size;
    const Step<const float> step(gru, values);
    const float* before = t == 0 ? call.in(1) : values - kIntermediates * size + kOutput * size;
    for (size_t i = 0; i < size; ++i) scaled[i] = step.reset[i] * before[i];
    for (size_t slot = 0; slot < kUnits; ++slot) {
      const float* unit = gradients + slot * size;
      const bool product = gru.reset_after && slot == gru.candidate();
      const float* recurrent = product ? gradients + kProduct * size : unit;
      const bool scales = !gru.reset_after && slot == gru.candidate();
      AddWeightGradient(call.in(0) + t * gru.batch * gru.input, unit, gru.batch, gru.input, hidden,
                        call.out(0) + slot * gru.input * hidden);
      AddWeightGradient(scales ? scaled.data() : before, recurrent, gru.batch, hidden, hidden,
                        call.out(1) + slot * hidden * hidden);
      AddRows(unit, gru.batch, hidden, call.out(2) + slot * biases * hidden);
      if (!gru.reset_after) continue;
      AddRows(recurrent, gru.batch, hidden, call.out(2) + (slot * biases + 1) * hidden);
    }
  }
}

const poputil::FloatKernelRegistration kForward("popnn::gruFwd", Forward);
const poputil::FloatKernelRegistration kBackward("popnn::gruBwd", Backward);
const poputil::FloatKernelRegistration kWeights("popnn::gruWU", WeightGradients);
const poplar::core::WorkRegistration kForwardWork("popnn::gruFwd", ForwardWork);
const poplar::core::WorkRegistration kBackwardWork("popnn::gruBwd", BackwardWork);
const poplar::core::WorkRegistration kWeightWork("popnn::gruWU", WeightWork);

// ---- calls

std::vector<size_t> BiasShape(const GruParams& params) {
  const size_t hidden = params.rnn.layerSizes[1];
  if (params.resetAfter) return {kUnits, 2, hidden};
  return {kUnits, hidden};
}

void CheckWeights(const CallSite& site, const GruParams& params, const GruWeights& weights) {
  const size_t in = params.rnn.layerSizes[0], hidden = params.rnn.layerSizes[1];
  site.CheckShape("inputWeights", weights.inputWeights, {kUnits, in, hidden});
  site.CheckShape("outputWeights", weights.outputWeights, {kUnits, hidden, hidden});
  site.CheckShape("biases", weights.biases, BiasShape(params));
}

void CheckScores(const CallSite& site, const GruParams& params, const Tensor* scores) {
  if (scores == nullptr) return;
  site.CheckShape("attentions", *scores, {params.rnn.batchSize, params.rnn.timeSteps});
}

Attributes GruAttributes(const GruParams& params, bool attention) {
  return CellAttributes(params).Set("reset_after", params.resetAfter).Set("attention", attention);
}

Tensor Run(const char* function, Graph& graph, const GruParams& params, const Tensor& state,
           const Tensor& in, const GruWeights& weights, Tensor* intermediates, const Tensor* scores,
           Sequence& prog, const DebugContext& debug, const OptionFlags& options) {
  const CallSite site = LayerSite(function, graph, params, debug, options);
  site.CheckShape("in", in, SequenceShape(params, params.rnn.layerSizes[0]));
  site.CheckShape("stateInit", state, StateShape(params));
  CheckWeights(site, params, weights);
  CheckScores(site, params, scores);
  const Tensor output = site.NewTensor(params.rnn.dataType, OutputShape(params), "output");
  // In float, so that nothing of a step is rounded between the passes.
  const Tensor values = site.NewTensor(
      poplar::FLOAT,
      {params.rnn.timeSteps, kIntermediates, params.rnn.batchSize, params.rnn.layerSizes[1]},
      "intermediates");
  std::vector<Tensor> inputs = {in, state, weights.inputWeights, weights.outputWeights,
                                weights.biases};
  if (scores != nullptr) inputs.push_back(*scores);
  site.Add(prog, "popnn::gruFwd", GruAttributes(params, scores != nullptr), inputs,
           {output, values});
  if (intermediates != nullptr) *intermediates = values;
  return output;
}

struct Gradients {
  Tensor *input, *units, *scores;
};

Tensor RunBackward(const char* function, Graph& graph, const GruParams& params, Sequence& prog,
                   const Tensor& state, const Tensor& intermediates, const GruWeights& weights,
                   const Tensor& input, const Tensor& output_gradient, const Tensor* scores,
                   const Gradients& results, const DebugContext& debug,
                   const OptionFlags& options) {
  const CallSite site = LayerSite(function, graph, params, debug, options);
  CheckWeights(site, params, weights);
  CheckScores(site, params, scores);
  site.CheckShape("the gradient of the output", output_gradient, OutputShape(params));
  const poplar::Type type = params.rnn.dataType;
  std::vector<Tensor> inputs = {state, weights.inputWeights, weights.outputWeights, intermediates,
                                output_gradient};
  std::vector<Tensor> outputs = {site.NewTensor(type, StateShape(params), "stateGrad"),
                                 site.NewTensor(poplar::FLOAT,
                                                {params.rnn.timeSteps, kGradients,
                                                 params.rnn.batchSize, params.rnn.layerSizes[1]},
                                                "unitsGrad"),
                                 site.NewTensor(type, input.shape(), "inputGrad")};
  if (scores != nullptr) {
    inputs.push_back(*scores);
    outputs.push_back(site.NewTensor(type, scores->shape(), "attentionsGrad"));
    if (results.scores != nullptr) *results.scores = outputs.back();
  }
  site.Add(prog, "popnn::gruBwd", GruAttributes(params, scores != nullptr), inputs, outputs);
  if (results.units != nullptr) *results.units = outputs[1];
  if (results.input != nullptr) *results.input = outputs[2];
  return outputs[0];
}

GruWeights RunUpdate(const char* function, Graph& graph, const GruParams& params, Sequence& prog,
                     const Tensor& state, const Tensor& intermediates, const Tensor& units,
                     const GruWeights& weights, const Tensor& input, const DebugContext& debug,
                     const OptionFlags& options) {
  const CallSite site = LayerSite(function, graph, params, debug, options);
  CheckWeights(site, params, weights);
  const poplar::Type type = params.rnn.dataType;
  const GruWeights result{site.NewLike(type, weights.inputWeights, "inputWeightsGrad"),
                          site.NewLike(type, weights.outputWeights, "outputWeightsGrad"),
                          site.NewLike(type, weights.biases, "biasesGrad")};
  site.Add(prog, "popnn::gruWU", GruAttributes(params, false), {input, state, intermediates, units},
           {result.inputWeights, result.outputWeights, result.biases});
  return result;
}

}  // namespace

const std::vector<BasicGruCellUnit> getDefaultBasicGruCellOrder() {
  return {BASIC_GRU_CELL_RESET_GATE, BASIC_GRU_CELL_UPDATE_GATE, BASIC_GRU_CELL_CANDIDATE};
}

Tensor createInput(Graph& graph, const GruParams& params, const DebugContext& debugContext,
                   const OptionFlags& options, poplin::PlanningCache*) {
  return LayerSite("popnn::gru::createInput", graph, params, debugContext, options)
      .NewTensor(params.rnn.dataType, SequenceShape(params, params.rnn.layerSizes[0]), "input");
}

Tensor createInitialState(Graph& graph, const GruParams& params, const DebugContext& debugContext,
                          const OptionFlags& options, poplin::PlanningCache*) {
  return LayerSite("popnn::gru::createInitialState", graph, params, debugContext, options)
      .NewTensor(params.rnn.dataType, StateShape(params), "state");
}

std::pair<Tensor, Tensor> createWeightsKernel(Graph& graph, const GruParams& params,
                                              const DebugContext& debugContext,
                                              const OptionFlags& options, poplin::PlanningCache*) {
  const CallSite site =
      LayerSite("popnn::gru::createWeightsKernel", graph, params, debugContext, options);
  const size_t in = params.rnn.layerSizes[0], hidden = params.rnn.layerSizes[1];
  return {site.NewTensor(params.rnn.dataType, {kUnits, in, hidden}, "inputWeights"),
          site.NewTensor(params.rnn.dataType, {kUnits, hidden, hidden}, "outputWeights")};
}

Tensor createWeightsBiases(Graph& graph, const GruParams& params, const DebugContext& debugContext,
                           const OptionFlags& options, poplin::PlanningCache*) {
  return LayerSite("popnn::gru::createWeightsBiases", graph, params, debugContext, options)
      .NewTensor(params.rnn.dataType, BiasShape(params), "biases");
}

GruWeights createWeights(Graph& graph, const GruParams& params, const DebugContext& debugContext,
                         const OptionFlags& options, poplin::PlanningCache* planningCache) {
  const auto kernels = createWeightsKernel(graph, params, debugContext, options, planningCache);
  return {kernels.first, kernels.second,
          createWeightsBiases(graph, params, debugContext, options, planningCache)};
}

Tensor createAttention(Graph& graph, const GruParams& params, const DebugContext& debugContext,
                       const OptionFlags& options) {
  return LayerSite("popnn::gru::createAttention", graph, params, debugContext, options)
      .NewTensor(params.rnn.dataType, {params.rnn.batchSize, params.rnn.timeSteps}, "attentions");
}

Tensor gruFwd(Graph& graph, const GruParams& params, const Tensor& stateInit, const Tensor& in,
              const GruWeights& weights, Tensor* intermediates, Sequence& prog,
              const DebugContext& debugContext, const OptionFlags& options,
              poplin::PlanningCache*) {
  return Run("popnn::gru::gruFwd", graph, params, stateInit, in, weights, intermediates, nullptr,
             prog, debugContext, options);
}

Tensor auGruFwd(Graph& graph, const GruParams& params, const Tensor& stateInit, const Tensor& in,
                const GruWeights& weights, Tensor* intermediates, const Tensor& attScores,
                Sequence& prog, const DebugContext& debugContext, const OptionFlags& options,
                poplin::PlanningCache*) {
  return Run("popnn::gru::auGruFwd", graph, params, stateInit, in, weights, intermediates,
             &attScores, prog, debugContext, options);
}

Tensor gruBwd(Graph& graph, const GruParams& params, Sequence& prog, const Tensor& fwdOutputInit,
              const Tensor& fwdIntermediates, const GruWeights& weights, const Tensor& fwdInputSeq,
              const Tensor&, const Tensor& gradLayerNext, Tensor* inputGrad,
              Tensor* bwdIntermediates, const DebugContext& debugContext,
              const OptionFlags& options, poplin::PlanningCache*) {
  return RunBackward("popnn::gru::gruBwd", graph, params, prog, fwdOutputInit, fwdIntermediates,
                     weights, fwdInputSeq, gradLayerNext, nullptr,
                     {inputGrad, bwdIntermediates, nullptr}, debugContext, options);
}

GruWeights gruWU(Graph& graph, const GruParams& params, Sequence& prog, const Tensor& fwdOutputInit,
                 const Tensor& fwdIntermediates, const Tensor& bwdIntermediates,
                 const GruWeights& weights, const Tensor& input, const Tensor&,
                 const DebugContext& debugContext, const OptionFlags& options,
                 poplin::PlanningCache*) {
  return RunUpdate("popnn::gru::gruWU", graph, params, prog, fwdOutputInit, fwdIntermediates,
                   bwdIntermediates, weights, input, debugContext, options);
}

Tensor gruBwdWithWU(Graph& graph, const GruParams& params, Sequence& prog,
                    const Tensor& fwdOutputInit, const Tensor& fwdIntermediates,
                    const GruWeights& weights, const Tensor& input, const Tensor& output,
                    const Tensor& outputGrad, Tensor* inputGrad, GruWeights& weightsGrad,
                    const DebugContext& debugContext, const OptionFlags& options,
                    poplin::PlanningCache* planningCache) {
  Tensor units;
  const Tensor state =
      gruBwd(graph, params, prog, fwdOutputInit, fwdIntermediates, weights, input, output,
             outputGrad, inputGrad, &units, debugContext, options, planningCache);
  weightsGrad = gruWU(graph, params, prog, fwdOutputInit, fwdIntermediates, units, weights, input,
                      output, debugContext, options, planningCache);
  return state;
}

Tensor auGruBwd(Graph& graph, const GruParams& params, Sequence& prog, const Tensor& fwdOutputInit,
                const Tensor& fwdIntermediates, const GruWeights& weights,
                const Tensor& fwdInputSeq, const Tensor&, const Tensor& gradLayerNext,
                Tensor* inputGrad, Tensor* bwdIntermediates, const Tensor& attentions,
                Tensor* attentionsGrad, const DebugContext& debugContext,
                const OptionFlags& options, poplin::PlanningCache*) {
  return RunBackward("popnn::gru::auGruBwd", graph, params, prog, fwdOutputInit, fwdIntermediates,
                     weights, fwdInputSeq, gradLayerNext, &attentions,
                     {inputGrad, bwdIntermediates, attentionsGrad}, debugContext, options);
}

GruWeights auGruWU(Graph& graph, const GruParams& params, Sequence& prog,
                   const Tensor& fwdOutputInit, const Tensor& fwdIntermediates,
                   const Tensor& bwdIntermediates, const GruWeights& weights, const Tensor& input,
                   const Tensor&, const DebugContext& debugContext, const OptionFlags& options,
                   poplin::PlanningCache*) {
  return RunUpdate("popnn::gru::auGruWU", graph, params, prog, fwdOutputInit, fwdIntermediates,
                   bwdIntermediates, weights, input, debugContext, options);
}

Tensor auGruBwdWithWU(Graph& graph, const GruParams& params, Sequence& prog,
                      const Tensor& fwdOutputInit, const Tensor& fwdIntermediates,
                      const GruWeights& weights, const Tensor& input, const Tensor& output,
                      const Tensor& outputGrad, Tensor* inputGrad, GruWeights& weightsGrad,
                      const Tensor& attentions, Tensor* attentionsGrad,
                      const DebugContext& debugContext, const OptionFlags& options,
                      poplin::PlanningCache* planningCache) {
  Tensor units;
  const Tensor state = auGruBwd(graph, params, prog, fwdOutputInit, fwdIntermediates, weights,
                                input, output, outputGrad, inputGrad, &units, attentions,
                                attentionsGrad, debugContext, options, planningCache);
  weightsGrad = auGruWU(graph, params, prog, fwdOutputInit, fwdIntermediates, units, weights, input,
                        output, debugContext, options, planningCache);
  return state;
}

uint64_t getBasicGruCellFwdFlops(const GruParams& params) {
  return 2 * LayerProducts(params.rnn, kUnits);
}
uint64_t getBasicGruCellBwdFlops(const GruParams& params) {
  return 2 * LayerProducts(params.rnn, kUnits);
}
uint64_t getBasicGruCellWuFlops(const GruParams& params) {
  return 2 * LayerProducts(params.rnn, kUnits);
}

}  // namespace gru
}  // namespace popnn
