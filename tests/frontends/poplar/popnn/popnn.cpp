// Cases of popnn; see test_*.py beside this file.
#include "../cases.h"

#include <popnn/CTCInference.hpp>
#include <popnn/CTCLoss.hpp>
#include <popnn/LogSoftmax.hpp>
#include <popnn/Loss.hpp>
#include <popnn/NonLinearity.hpp>
#include <popnn/NonLinearityDefUtil.hpp>
#include <popnn/Pooling.hpp>
#include <popnn/SpatialSoftMax.hpp>
#include <popnn/codelets.hpp>

#include <sstream>
#include <tuple>

using namespace poplar;
using namespace poplar::program;

namespace {

popnn::NonLinearityType kindOf(const Case &c) {
  popnn::NonLinearityType kind;
  std::istringstream(c.word("kind")) >> kind;
  return kind;
}

void nonLinearity(Case &c) {
  popnn::addCodelets(c.graph);
  const popnn::NonLinearityType kind = kindOf(c);
  const Tensor x = c.in("x");
  float scale = 0;
  const Tensor y = popnn::nonLinearity(c.graph, kind, x, scale, c.prog, "y");
  c.out("y", y);
  c.note("scale", scale);
  const bool of_input = c.flag("of_input");
  c.out("dx",
        popnn::nonLinearityInputGradient(c.graph, kind, of_input ? x : y, c.in("dy"), c.prog));
  const Tensor same = c.graph.clone(x);
  c.prog.add(Copy(x, same));
  popnn::nonLinearityInPlace(c.graph, kind, same, c.prog);
  c.out("in_place", same);
  c.note("named", poputil::templateVertex("V", kind) ==
                      "V<popnn::NonLinearityType::" + c.word("kind") + ">");
}

// As parts of one compute set.
void computeSet(Case &c) {
  const popnn::NonLinearityType kind = kindOf(c);
  const Tensor x = c.in("x"), dy = c.in("dy");
  const Tensor y = c.graph.clone(x);
  c.prog.add(Copy(x, y));
  ComputeSet cs = c.graph.addComputeSet("cs"), second = c.graph.addComputeSet("second");
  popnn::nonLinearityInPlace(c.graph, kind, y, cs);
  c.out("dx", popnn::nonLinearityInputGradient(c.graph, kind, y, dy, second));
  c.prog.add(Execute(cs));
  c.prog.add(Execute(second));
  c.out("y", y);
}

using New = Tensor (*)(Graph &, Tensor, Sequence &, const DebugContext &);
using InPlace = void (*)(Graph &, Tensor, float &, Sequence &, const DebugContext &);

void shortcuts(Case &c) {
  const std::map<std::string, std::pair<New, InPlace>> functions = {
      {"SIGMOID", {popnn::sigmoid, popnn::sigmoidInPlace}},
      {"HARD_SIGMOID", {popnn::hardSigmoid, popnn::hardSigmoidInPlace}},
      {"RELU", {popnn::relu, popnn::reluInPlace}},
      {"TANH", {popnn::tanh, popnn::tanhInPlace}},
      {"GELU", {popnn::gelu, popnn::geluInPlace}},
      {"GELU_ERF", {popnn::geluErf, popnn::geluErfInPlace}},
      {"SWISH", {popnn::swish, popnn::swishInPlace}},
      {"SOFTMAX", {popnn::softmax, popnn::softmaxInPlace}},
      {"SOFTMAX_STABLE", {popnn::softmaxStable, popnn::softmaxStableInPlace}},
      {"SOFTMAX_SCALED", {popnn::scaledSoftmax, popnn::scaledSoftmaxInPlace}}};
  const Tensor x = c.in("x");
  for (const auto &function : functions) {
    c.out(function.first, function.second.first(c.graph, x, c.prog, {}));
    const Tensor same = c.graph.clone(x);
    c.prog.add(Copy(x, same));
    float scale = 0;
    function.second.second(c.graph, same.transpose().transpose(), scale, c.prog, {});
    c.out(function.first + "_in_place", same);
  }
  c.out("logSoftmax", popnn::logSoftmax(c.graph, x, c.prog));
  const Tensor same = c.graph.clone(x);
  c.prog.add(Copy(x, same));
  popnn::logSoftmaxInPlace(c.graph, same, c.prog);
  c.out("logSoftmax_in_place", same);
}

void spatialSoftmax(Case &c) {
  c.out("out", popnn::spatialSoftMax2D(c.graph, c.prog, c.in("x"), 0.5f).first);
}

void loss(Case &c) {
  const Tensor outputs = c.in("outputs"), expected = c.in("expected");
  const Tensor loss = c.graph.addVariable(outputs.elementType(), {outputs.dim(0)});
  const Tensor deltas = c.graph.clone(outputs);
  const Tensor correct = c.graph.addVariable(UNSIGNED_INT, {1});
  poputil::mapTensorLinearly(c.graph, loss);
  c.graph.setTileMapping(correct, 1);
  const popnn::LossType type =
      c.flag("squared") ? popnn::SUM_SQUARED_LOSS : popnn::CROSS_ENTROPY_LOSS;
  if (c.has("scale")) {
    const Tensor deltas_scale = c.in("deltas_scale"), scale = c.in("scale");
    c.prog.add(
        popnn::calcLoss(c.graph, outputs, expected, loss, deltas, deltas_scale, scale, type));
    c.prog.add(popnn::calcLoss(c.graph, outputs, expected, loss, deltas, deltas_scale, scale,
                               correct, type, "loss"));
  } else if (c.flag("apart")) {
    c.prog.add(popnn::calcLoss(c.graph, outputs, expected, loss, deltas, type, "loss"));
    c.prog.add(popnn::calcAccuracy(c.graph, outputs, expected, correct));
  } else {
    c.prog.add(popnn::calcLoss(c.graph, outputs, expected, loss, deltas, correct, type, "loss"));
  }
  c.out("loss", loss);
  c.out("deltas", deltas);
  c.out("correct", correct);
}

void select(Case &c) {
  const Tensor x = c.in("x");
  c.out("arg_max", popnn::argMax(c.graph, x, c.prog));
  c.out("arg_min", popnn::argMin(c.graph, x, c.prog));
  const std::pair<Tensor, Tensor> greatest = popnn::maxAndArgMax(c.graph, x, c.prog);
  c.out("max", greatest.first);
  c.out("max_place", greatest.second);
  const std::pair<Tensor, Tensor> least = popnn::minAndArgMin(c.graph, x, c.prog);
  c.out("min", least.first);
  c.out("min_place", least.second);
  Tensor places;
  c.out("top", popnn::topK(c.graph, x, places, static_cast<unsigned>(c.number("k")), true, c.prog));
  c.out("top_places", places);
}

popnn::pooling::PoolParams poolParams(const Case &c) {
  const std::map<std::string, popnn::PoolingType> types = {{"max", popnn::PoolingType::MAX},
                                                           {"avg", popnn::PoolingType::AVG},
                                                           {"sum", popnn::PoolingType::SUM}};
  return popnn::pooling::PoolParams(
      types.at(c.word("kind")), c.list("field"), c.list("kernel"), c.list<unsigned>("stride"),
      c.list<int>("lower"), c.list<int>("upper"), c.list("sizes")[1], c.list("sizes")[0], FLOAT);
}

void pool(Case &c) {
  using namespace popnn::pooling;
  const PoolParams params = poolParams(c);
  const Tensor x = c.in("x");
  const Tensor y = popnn::pooling::pool(c.graph, params, x, c.prog, "pool");
  c.out("y", y);
  const std::vector<size_t> shape = y.shape();
  c.note("same_shape",
         getOutputFieldShape(params) == std::vector<size_t>(shape.begin() + 2, shape.end()));
  c.note("named", asString(params.poolingType) == c.word("kind"));
  c.note("flops", static_cast<double>(getFwdFlops(params)));
  c.note("backward_flops", static_cast<double>(getBwdFlops(params)));
  c.note("cycles", getFwdPerfectCycleCount(c.graph, params));
  c.note("backward_cycles", getBwdPerfectCycleCount(c.graph, params));
  if (!c.has("dy")) return;
  const Tensor dy = c.in("dy");
  c.out("dx", poolInputGradient(c.graph, params, x, y, dy, c.flag("scaled"), c.prog));
  if (c.word("kind") != "max" || c.flag("refused")) {
    c.out("dx_short", poolInputGradient(c.graph, params, 1, dy, c.prog));
  }
}

void ctcLoss(Case &c) {
  using namespace popnn::ctc;
  const std::vector<unsigned> s = c.list<unsigned>("sizes");  // time, batch, classes, labels
  const Type in = c.type("type"), out = FLOAT;
  const Plan planned = plan(c.graph, in, out, s[1], s[0], s[3], s[2]);
  const Tensor data = createDataInput(c.graph, in, s[1], s[0], s[2], planned, "data");
  const Tensor labels = createLabelsInput(c.graph, UNSIGNED_INT, s[1], s[3], planned, "labels");
  c.set("data", data);
  c.set("labels", labels);
  const Tensor steps = c.in("steps"), counts = c.in("counts"), probs = c.in("probs");
  const unsigned blank = static_cast<unsigned>(c.number("blank"));
  std::pair<Tensor, Tensor> found =
      calcLossAndGradientLogits(c.graph, out, data, labels, steps, counts, c.prog, blank, planned);
  c.out("loss", found.first);
  c.out("gradient", found.second);
  found = calcLossAndGradientLogProbabilities(c.graph, out, probs, labels, steps, counts, c.prog,
                                              blank, planned);
  c.out("loss_of_probs", found.first);
  c.out("gradient_of_probs", found.second);
  c.out("loss_alone",
        calcCTCLossLogits(c.graph, out, data, labels, steps, counts, c.prog, blank, planned));
  c.out("loss_of_probs_alone", calcCTCLossLogProbabilities(c.graph, out, probs, labels, steps,
                                                           counts, c.prog, blank, planned));
}

void beamSearch(Case &c) {
  namespace search = popnn::ctc_infer;
  const std::vector<unsigned> s = c.list<unsigned>("sizes");  // time, batch, classes
  const unsigned blank = static_cast<unsigned>(c.number("blank"));
  const unsigned width = static_cast<unsigned>(c.number("width"));
  const unsigned paths = static_cast<unsigned>(c.number("paths"));
  const popnn::ctc::Plan planned = search::plan(c.graph, FLOAT, s[1], s[0], s[2], width);
  const Tensor data = search::createDataInput(c.graph, FLOAT, s[1], s[0], s[2], planned, "data");
  c.set("data", data);
  const Tensor probs = c.in("probs"), steps = c.in("steps");
  Tensor scores, lengths, labels;
  std::tie(scores, lengths, labels) =
      search::beamSearchDecoderLogits(c.graph, data, steps, c.prog, blank, width, paths, planned);
  c.out("scores", scores);
  c.out("lengths", lengths);
  c.out("labels", labels);
  c.out("scores_of_probs", std::get<0>(search::beamSearchDecoderLogProbabilities(
                               c.graph, probs, steps, c.prog, blank, width, paths, planned)));
}

const Cases cases = {
    {"ctcLoss", ctcLoss},
    {"beamSearch", beamSearch},
    {"nonLinearity", nonLinearity},
    {"computeSet", computeSet},
    {"shortcuts", shortcuts},
    {"spatialSoftmax", spatialSoftmax},
    {"loss", loss},
    {"select", select},
    {"pool", pool},
};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
