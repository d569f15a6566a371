// Cases of convolutions; see test_convolution.py.
#include "../cases.h"

#include <poplin/ConvPreplan.hpp>
#include <poplin/ConvUtil.hpp>
#include <poplin/Convolution.hpp>
#include <poplin/MultiConvolution.hpp>
#include <poplin/codelets.hpp>

#include <sstream>

using namespace poplar;
using namespace poplar::program;
using poplin::ConvParams;

namespace {

ConvParams::InputTransform transform(const Case &c, const std::string &of) {
  const std::vector<unsigned> flips = c.list<unsigned>(of + "_flip");
  return ConvParams::InputTransform(
      c.list<unsigned>(of + "_cut_lower"), c.list<unsigned>(of + "_cut_upper"),
      c.list<unsigned>(of + "_dilation"), c.list<unsigned>(of + "_pad_lower"),
      c.list<unsigned>(of + "_pad_upper"), std::vector<bool>(flips.begin(), flips.end()));
}

ConvParams paramsOf(const Case &c) {
  const std::vector<size_t> sizes = c.list("sizes");  // batch, groups, channels of a group
  ConvParams params(c.type("type"), c.type("type"), sizes[0], c.list("field"), c.list("kernel"),
                    sizes[2], sizes[3], sizes[1], transform(c, "in"), transform(c, "kernel"),
                    ConvParams::OutputTransform(
                        c.list<unsigned>("out_cut_lower"), c.list<unsigned>("out_cut_upper"),
                        c.list<unsigned>("out_stride"), c.list<unsigned>("out_pad_lower"),
                        c.list<unsigned>("out_pad_upper")));
  return params;
}

// All passes of a convolution; the gradient of the weights as a convolution, too.
void passes(Case &c) {
  poplin::addCodelets(c.graph);
  const ConvParams params = paramsOf(c);
  const Tensor in = poplin::createInput(c.graph, params, "in");
  const Tensor weights = poplin::createWeights(c.graph, params, "weights");
  c.set("x", in);
  c.set("w", weights);
  Tensor out = poplin::convolution(c.graph, in, weights, params, false, c.prog, "conv",
                                   {{"pass", "TRAINING_FWD"}});
  c.out("out", out);
  if (!c.has("dy")) return;
  const Tensor deltas = c.in("dy");
  c.out("dx", poplin::convolution(c.graph, deltas, weights, poplin::getGradientParams(params), true,
                                  c.prog, "backward"));
  c.out("dw", poplin::calculateWeightDeltas(c.graph, deltas, in, params, c.prog));
  // {groups, channels, batch, field} of a group become batch and channels of a convolution.
  const ConvParams update = poplin::getWeightUpdateParams(params);
  const size_t groups = params.numConvGroups, batch = params.batchSize;
  Tensor x = in.reshapePartial(1, 2, {groups, params.inputChannelsPerConvGroup});
  x = x.dimRoll(2, 0).dimRoll(1, 2);  // {channels, groups, batch}
  x = x.flatten(1, 3);
  Tensor dy = deltas.reshapePartial(1, 2, {groups, params.outputChannelsPerConvGroup});
  dy = dy.dimRoll(0, 2);  // {groups, channels, batch}
  Tensor gradient = poplin::convolution(c.graph, x, dy, update, false, c.prog);
  gradient = gradient.reshapePartial(1, 2, {groups, params.outputChannelsPerConvGroup});
  c.out("dw_by_convolution", gradient.dimRoll(0, 2));
  c.note("batch", static_cast<double>(batch));
}

void updates(Case &c) {
  const ConvParams params = paramsOf(c);
  const Tensor x = c.in("x"), dy = c.in("dy"), w = c.in("w"), w2 = c.in("w2"), b = c.in("b"),
               b2 = c.in("b2"), scale = c.in("scale");
  poplin::convolutionWeightUpdate(c.graph, dy, w, x, params, scale, c.prog);
  poplin::convolutionWeightUpdate(c.graph, dy, w2, x, params, -0.5f, c.prog);
  poplin::convolutionBiasUpdate(c.graph, dy, b, scale, {}, c.prog);
  poplin::convolutionBiasUpdate(c.graph, dy, b2, -0.5f, {}, c.prog);
  c.out("w", w);
  c.out("w2", w2);
  c.out("b", b);
  c.out("b2", b2);
  const Tensor biases = poplin::createBiases(c.graph, dy);
  c.prog.add(Copy(b, biases));
  poplin::addBias(c.graph, dy, biases, c.prog);
  c.out("biased", dy);
}

// Convolutions at once, into a given tensor, and with weights flipped before.
void several(Case &c) {
  const ConvParams params = paramsOf(c);
  const std::vector<poplin::multiconv::CreateTensorArgs> tensors(2, {params, {}, "t"});
  const Tensor x = poplin::multiconv::createInput(c.graph, tensors, 1);
  const Tensor w = poplin::multiconv::createWeights(c.graph, tensors, 0);
  c.set("x", x);
  c.set("w", w);
  const Tensor flipped = c.graph.addVariable(FLOAT, w.dimShufflePartial({1, 2}, {2, 1}).shape());
  poputil::mapTensorLinearly(c.graph, flipped);
  poplin::weightsTransposeChansFlipXY(c.graph, w, flipped, c.prog);
  std::vector<poplin::multiconv::ConvolutionArgs> args = {{x, flipped, params, {}}};
  c.out("multi", poplin::multiconv::convolution(c.graph, args, true, c.prog)[0]);
  const Tensor out = poplin::createConvOutput(c.graph, params);
  poplin::convolutionWithOutput(c.graph, x, w, out, params, false, c.prog);
  c.out("out", out);
  const Tensor dw =
      poplin::multiconv::calculateWeightDeltas(c.graph, {{out, x, params, {}}}, c.prog)[0];
  c.out("dw", dw);
  const Tensor updated = c.graph.clone(w);
  c.prog.add(Copy(w, updated));
  poplin::multiconv::convolutionWeightUpdate(
      c.graph,
      std::vector<poplin::multiconv::ConvWeightUpdateArgs<float>>{
          {out, updated, x, 2.0f, params, {}}},
      c.prog);
  c.out("updated", updated);
  c.out("exchanged", poplin::fullyConnectedWeightTranspose(c.graph, w, params, c.prog));
}

// Functions of the parameters: figures and indices that meet.
void figures(Case &c) {
  const ConvParams params = paramsOf(c);
  c.note("flops", static_cast<double>(poplin::getFwdFlops(params)));
  c.note("backward_flops", static_cast<double>(poplin::getBwdFlops(params)));
  c.note("update_flops", static_cast<double>(poplin::getWuFlops(params)));
  c.note("cycles",
         poplin::getFwdPerfectCycleCount(c.graph, params) * c.graph.getTarget().getNumTiles());
  c.note("update_cycles",
         poplin::getWuPerfectCycleCount(c.graph, params) * c.graph.getTarget().getNumTiles());
  c.note("input_index", poplin::getInputIndex(0, 1, 2, params));
  c.note("kernel_index", poplin::getKernelIndex(0, 1, 2, params));
  const std::pair<unsigned, unsigned> all(0, static_cast<unsigned>(params.getOutputSize(0)));
  c.note("inputs_end", poplin::getInputRange(0, 1u, params).second);
  c.note("kernels_end", poplin::getKernelRange(0, all, 0u, params).second);
  c.note("outputs_begin", poplin::getOutputRangeForInputIndex(0, all, 3, params).first);
  c.note("outputs_end", poplin::getOutputRangeForKernelIndex(0, all, 0, params).second);
  c.note("same", params.canonicalize() == params && !(params < params));
  std::ostringstream report;
  poplin::reportPlanInfo(report, c.graph, params);
  poplin::reportWeightUpdatePlanInfo(report, c.graph, params);
  c.note("reported", report.str().find("stride {2,2}") != std::string::npos);
  poplin::PlanningCache cache;
  const OptionFlags flags;
  poplin::preplanConvolutions(
      c.graph, {poplin::ConvPlanParams(&c.graph.getTarget(), params, &flags)}, cache);
  poplin::preplan({poplin::ConvPlanParams(&c.graph.getTarget(), params, &flags)}, {}, cache);
  c.note("bytes", static_cast<double>(poplin::reportPlanEstimatedCosts(c.graph, params).memory));
}

const Cases cases = {
    {"passes", passes},
    {"updates", updates},
    {"several", several},
    {"figures", figures},
};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
