// Cases of recurrent layers; see test_recurrent.py.
#include "../cases.h"

#include <popnn/Gru.hpp>
#include <popnn/Lstm.hpp>
#include <popnn/Recurrent.hpp>
#include <popnn/Rnn.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Zero.hpp>

using namespace poplar;
using namespace poplar::program;

namespace {

void lstm(Case &c) {
  using namespace popnn::lstm;
  const std::vector<size_t> s = c.list("sizes");  // time, batch, input, hidden
  LstmParams params(c.type("type"), s[1], s[0], {s[2], s[3]});
  params.outputFullSequence = c.flag("full");
  if (c.flag("reordered")) {
    params.cellOrder = {BASIC_LSTM_CELL_OUTPUT_GATE, BASIC_LSTM_CELL_INPUT_GATE,
                        BASIC_LSTM_CELL_FORGET_GATE, BASIC_LSTM_CELL_CANDIDATE};
  }
  const Tensor x = createInput(c.graph, params, "x");
  const bool apart = c.flag("apart");
  const LstmState state = apart ? LstmState{createInitialOutput(c.graph, params, "output"),
                                            createInitialCellState(c.graph, params, "cell")}
                                : createInitialState(c.graph, params, "state");
  LstmWeights weights;
  if (apart) {
    std::tie(weights.inputWeights, weights.outputWeights) =
        createWeightsKernel(c.graph, params, "kernel");
    weights.biases = createWeightsBiases(c.graph, params, "biases");
  } else {
    weights = createWeights(c.graph, params, "weights");
  }
  c.set("x", x);
  c.set("w", weights.inputWeights);
  c.set("u", weights.outputWeights);
  c.set("b", weights.biases);
  if (c.has("h")) {
    c.set("h", state.output);
    c.set("c", state.cellState);
  } else {
    zeroInitialState(c.graph, state, c.prog);
  }
  Tensor intermediates, dx;
  const std::pair<Tensor, Tensor> out = lstmFwd(c.graph, params, state, x, weights, &intermediates,
                                                c.prog, "lstm", {{"inferenceOnly", "false"}});
  c.out("y", out.first);
  c.out("state", out.second);
  LstmWeights gradients;
  const LstmState last{c.in("dh"), c.in("dc")};
  const Tensor dy = c.in("dy");
  LstmState first;
  if (apart) {
    Tensor backward;
    first = lstmBwd(c.graph, params, c.prog, state, intermediates, weights, x, out.first, dy, &last,
                    &dx, &backward);
    gradients =
        lstmWU(c.graph, params, c.prog, state, intermediates, backward, weights, x, out.first);
  } else {
    first = lstmBwdWithWU(c.graph, params, c.prog, state, intermediates, weights, x, out.first, dy,
                          &last, &dx, gradients);
  }
  c.out("dx", dx);
  c.out("dh", first.output);
  c.out("dc", first.cellState);
  c.out("dw", gradients.inputWeights);
  c.out("du", gradients.outputWeights);
  c.out("db", gradients.biases);
  c.note("flops", static_cast<double>(getBasicLstmCellFwdFlops(params)));
  c.note("other_flops",
         static_cast<double>(getBasicLstmCellBwdFlops(params) + getBasicLstmCellWuFlops(params)));
}

void gru(Case &c) {
  using namespace popnn::gru;
  const std::vector<size_t> s = c.list("sizes");
  GruParams params(c.type("type"), s[1], s[0], {s[2], s[3]});
  params.outputFullSequence = c.flag("full");
  params.resetAfter = c.flag("reset_after");
  const Tensor x = createInput(c.graph, params, "x");
  const Tensor state = createInitialState(c.graph, params, "state");
  const bool apart = c.flag("apart");
  GruWeights weights;
  if (apart) {
    std::tie(weights.inputWeights, weights.outputWeights) =
        createWeightsKernel(c.graph, params, "kernel");
    weights.biases = createWeightsBiases(c.graph, params, "biases");
  } else {
    weights = createWeights(c.graph, params, "weights");
  }
  c.set("x", x);
  c.set("h", state);
  c.set("w", weights.inputWeights);
  c.set("u", weights.outputWeights);
  c.set("b", weights.biases);
  Tensor intermediates, dx, first, scores_gradient;
  GruWeights gradients;
  const Tensor dy = c.in("dy");
  if (c.has("scores")) {
    const Tensor scores = createAttention(c.graph, params, "scores");
    c.set("scores", scores);
    const Tensor y = auGruFwd(c.graph, params, state, x, weights, &intermediates, scores, c.prog);
    c.out("y", y);
    if (apart) {
      Tensor backward;
      first = auGruBwd(c.graph, params, c.prog, state, intermediates, weights, x, y, dy, &dx,
                       &backward, scores, &scores_gradient, {}, {}, nullptr);
      gradients = auGruWU(c.graph, params, c.prog, state, intermediates, backward, weights, x, y,
                          {}, {}, nullptr);
    } else {
      first = auGruBwdWithWU(c.graph, params, c.prog, state, intermediates, weights, x, y, dy, &dx,
                             gradients, scores, &scores_gradient, {}, {}, nullptr);
    }
    c.out("dscores", scores_gradient);
  } else {
    const Tensor y = gruFwd(c.graph, params, state, x, weights, &intermediates, c.prog);
    c.out("y", y);
    if (apart) {
      Tensor backward;
      first = gruBwd(c.graph, params, c.prog, state, intermediates, weights, x, y, dy, &dx,
                     &backward, {}, {}, nullptr);
      gradients = gruWU(c.graph, params, c.prog, state, intermediates, backward, weights, x, y, {},
                        {}, nullptr);
    } else {
      first = gruBwdWithWU(c.graph, params, c.prog, state, intermediates, weights, x, y, dy, &dx,
                           gradients, {}, {}, nullptr);
    }
  }
  c.out("dx", dx);
  c.out("dh", first);
  c.out("dw", gradients.inputWeights);
  c.out("du", gradients.outputWeights);
  c.out("db", gradients.biases);
  c.note("flops", static_cast<double>(getBasicGruCellFwdFlops(params)));
  c.note("other_flops",
         static_cast<double>(getBasicGruCellBwdFlops(params) + getBasicGruCellWuFlops(params)));
}

// Variables of layers that users write themselves.
void tensors(Case &c) {
  const popnn::rnn::RnnParams params(HALF, 2, 3, {4, 5});
  const Tensor in = popnn::rnn::createInputTensor(c.graph, params, 1);
  const Tensor out = popnn::rnn::createOutputTensor(c.graph, params, 1);
  const Tensor state = popnn::rnn::createInitialState(c.graph, params, true, 1, 1);
  const Tensor recurrent = popnn::rnn::createRecurrentTensor(c.graph, params, 7, 1);
  c.note("shapes", in.shape() == std::vector<size_t>({3, 2, 4}) &&
                       out.shape() == std::vector<size_t>({3, 2, 5}) &&
                       state.shape() == std::vector<size_t>({1, 2, 5}) &&
                       recurrent.shape() == std::vector<size_t>({3, 2, 7}));
  const Tensor several = popnn::rnn::createOutputTensor(c.graph, params, 2, 1);
  c.note("multiple", several.shape() == std::vector<size_t>({6, 2, 5}));
  c.note("steps", static_cast<double>(params.timeSteps + params.maxTimeSteps));
  c.note("varies", params.variableTimeSteps());
}

// States: h = tanh(h + x), replaced, and the sum of all h, written in place.
void loop(Case &c) {
  using namespace popnn::rnn;
  const Tensor x = c.in("x"), scale = c.in("scale");
  const std::vector<size_t> s = x.shape();
  const RnnParams params = c.has("steps")
                               ? RnnParams(FLOAT, s[1], s[0], c.in("steps"), {s[2], s[2]})
                               : RnnParams(FLOAT, s[1], s[0], {s[2], s[2]});
  const Tensor first = createInitialState(c.graph, params, true, 1, 1, "first");
  c.set("h", first);
  const Tensor states = createOutputTensor(c.graph, params, 1, "states");
  Tensor interim = createOutputTensor(c.graph, params, 2, 1, "interim");
  const Tensor places = createOutputTensor(c.graph, params, 1, "places");
  const Tensor sum = c.graph.addVariable(FLOAT, {s[1], s[2]}, "sum");
  poputil::mapTensorLinearly(c.graph, sum);
  const LoopBodyType body = [](Graph &graph, const TimeStepState &time,
                               const RnnBatchwiseFlags &flags, std::vector<Tensor> &state,
                               const RnnSlice &slice, std::vector<Tensor> &created, Sequence *init,
                               const DebugNameAndId &name) {
    using namespace popops::expr;
    Sequence step({name, "step"});
    popops::zero(graph, created[0], *init);
    const Tensor h = popops::map(graph, Tanh(_1 + _2), {state[0][0], slice.inputs[0]}, step);
    popops::addInPlace(graph, state[1][0], h, step);
    popops::addInPlace(graph, created[0], slice.inputs[0], step);
    popops::mapWithOutput(graph, _1 * _2, {h, slice.interimIn}, slice.interimOut[0], step);
    popops::mapWithOutput(graph, _1 + _2, {h, slice.interimIn}, slice.interimOut[1], step);
    popops::mapWithOutput(graph, _1 - _1 + Cast(_2 * 10u + _3 * 100u + _4, FLOAT),
                          {h, time.counter, time.begin, time.seqIdx}, slice.outputs[0], step);
    if (flags.valid()) {
      popops::mapInPlace(graph, _1 * _2 - _3,
                         {slice.outputs[0], flags.mask.expand({1}), flags.inverse.expand({1})},
                         step);
    }
    state[0] = h.expand({0});
    return step;
  };
  OptionFlags options;
  const std::vector<Tensor> last =
      Rnn(c.graph, params, c.flag("reverse"), {first, first}, StateSequence{states, 0}, {x}, &scale,
          &interim, {places}, {sum}, c.prog, body, 1, options, "loop");
  c.out("h", last[0]);
  c.out("total", last[1]);
  c.out("states", states);
  c.out("interim", interim);
  c.out("places", places);
  c.out("sum", sum);
  c.out("shifted", shiftRnnTensor(c.graph, params, x, first[0], c.prog, 1));
}

void plain(Case &c) {
  using namespace popnn::rnn;
  const std::vector<unsigned> s = c.list<unsigned>("sizes");  // time, batch, input, output
  const Type type = c.type("type");
  popnn::NonLinearityType kind = popnn::NonLinearityType::TANH;
  const Tensor x = createInput(c.graph, s[0], s[1], s[2], s[3], type, FLOAT, false, "x");
  const Tensor w = createWeightsInput(c.graph, s[0], s[1], s[2], s[3], type, FLOAT, false, "w");
  const Tensor u = createWeightsFeedback(c.graph, s[1], s[3], type, FLOAT, false, "u");
  const Tensor h = createFwdState(c.graph, type, s[1], s[3], c.prog, false, false, "h");
  const Tensor b = c.in("b"), dy = c.in("dy");
  c.set("x", x);
  c.set("w", w);
  c.set("u", u);
  c.set("h", h);
  const Tensor y = rnnFwdSequence(c.graph, c.prog, h, nullptr, b, w, u, x, kind, FLOAT, false);
  c.out("y", y);
  const Tensor weighted = forwardWeightInput(c.graph, x, w, c.prog);
  c.out("y_iterated", forwardIterate(c.graph, weighted, h, u, b, c.prog, kind));
  Tensor dx, dw, du, db;
  std::tie(dx, dw, du, db) =
      rnnBwdSequence(c.graph, true, false, c.prog, h, y, b, w, u, dy, x, kind, FLOAT);
  c.out("dx", dx);
  c.out("dw", dw);
  c.out("du", du);
  c.out("db", db);
  // The same step by step.
  Tensor sum_w = c.graph.clone(w), sum_u = c.graph.clone(u), sum_b = c.graph.clone(b);
  for (const Tensor &sum : {sum_w, sum_u, sum_b}) popops::zero(c.graph, sum, c.prog);
  Tensor state = createBwdState(c.graph, type, s[1], s[3], c.prog);
  for (unsigned t = s[0]; t-- > 0;) {
    const Tensor before = t > 0 ? y[t - 1] : getOutputFromFwdState(h);
    Tensor of_input;
    const Tensor short_form = backwardGradientStep(c.graph, dy[t], state, y[t], u, c.prog, kind);
    std::tie(of_input, state) =
        backwardGradientStep(c.graph, dy[t], state, y[t], w, u, c.prog, kind);
    paramDeltaUpdate(c.graph, t % 2 ? short_form : state, x[t], before, sum_w, sum_u, sum_b,
                     c.prog);
    if (t == 0) c.out("dx_first", of_input);
  }
  c.out("dw_steps", sum_w);
  c.out("du_steps", sum_u);
  c.out("db_steps", sum_b);
  c.note("flops", static_cast<double>(getFwdFlops(s[0], s[1], s[2], s[3])));
  c.note("backward_flops", static_cast<double>(getBwdFlops(s[0], s[1], s[2], s[3], false)));
  c.note("update_flops", static_cast<double>(getWuFlops(s[0], s[1], s[2], s[3])));
}

const Cases cases = {
    {"lstm", lstm}, {"gru", gru}, {"tensors", tensors}, {"loop", loop}, {"plain", plain}};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
