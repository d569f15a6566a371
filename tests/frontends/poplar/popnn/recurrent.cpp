// Cases of recurrent layers; see test_recurrent.py.
#include "../cases.h"

#include <popnn/Gru.hpp>
#include <popnn/Lstm.hpp>
#include <popnn/Rnn.hpp>

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
  const LstmState state = createInitialState(c.graph, params, "state");
  const LstmWeights weights = createWeights(c.graph, params, "weights");
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
  const LstmState first = lstmBwdWithWU(c.graph, params, c.prog, state, intermediates, weights, x,
                                        out.first, c.in("dy"), &last, &dx, gradients);
  c.out("dx", dx);
  c.out("dh", first.output);
  c.out("dc", first.cellState);
  c.out("dw", gradients.inputWeights);
  c.out("du", gradients.outputWeights);
  c.out("db", gradients.biases);
  c.note("flops", static_cast<double>(getBasicLstmCellFwdFlops(params)));
}

void gru(Case &c) {
  using namespace popnn::gru;
  const std::vector<size_t> s = c.list("sizes");
  GruParams params(c.type("type"), s[1], s[0], {s[2], s[3]});
  params.outputFullSequence = c.flag("full");
  params.resetAfter = c.flag("reset_after");
  const Tensor x = createInput(c.graph, params, "x");
  const Tensor state = createInitialState(c.graph, params, "state");
  const GruWeights weights = createWeights(c.graph, params, "weights");
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
    first = auGruBwdWithWU(c.graph, params, c.prog, state, intermediates, weights, x, y, dy, &dx,
                           gradients, scores, &scores_gradient, {}, {}, nullptr);
    c.out("dscores", scores_gradient);
  } else {
    const Tensor y = gruFwd(c.graph, params, state, x, weights, &intermediates, c.prog);
    c.out("y", y);
    first = gruBwdWithWU(c.graph, params, c.prog, state, intermediates, weights, x, y, dy, &dx,
                         gradients, {}, {}, nullptr);
  }
  c.out("dx", dx);
  c.out("dh", first);
  c.out("dw", gradients.inputWeights);
  c.out("du", gradients.outputWeights);
  c.out("db", gradients.biases);
  c.note("flops", static_cast<double>(getBasicGruCellFwdFlops(params)));
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
                       state.shape() == std::vector<size_t>({2, 5}) &&
                       recurrent.shape() == std::vector<size_t>({3, 2, 7}));
  c.note("steps", static_cast<double>(params.timeSteps + params.maxTimeSteps));
  c.note("varies", params.variableTimeSteps());
}

const Cases cases = {{"lstm", lstm}, {"gru", gru}, {"tensors", tensors}};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
