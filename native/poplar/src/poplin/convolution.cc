#include "poplin/Convolution.hpp"
#include "poplar/core/OpWork.hpp"

#include <string>

#include "poplar/core/OpWork.hpp"
#include "poplin/ConvPreplan.hpp"
#include "poplin/ConvUtil.hpp"
#include "poplin/MultiConvolution.hpp"
#include "poplin/options.h"
#include "poputil/call_site.h"
#include "poputil/exceptions.hpp"

namespace poplin {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using Shape = std::vector<size_t>;

namespace {

Shape Joined(Shape first, const Shape& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Shape InputShape(const ConvParams& p) {
  return Joined({p.batchSize, p.getNumInputChans()}, p.inputFieldShape);
}

Shape OutputShape(const ConvParams& p) {
  return Joined({p.batchSize, p.getNumOutputChans()}, p.getOutputFieldShape());
}

Shape WeightsShape(const ConvParams& p, bool transposed) {
  const size_t in = p.inputChannelsPerConvGroup, out = p.outputChannelsPerConvGroup;
  if (transposed) return Joined({p.numConvGroups, in, out}, p.kernelShape);
  return Joined({p.numConvGroups, out, in}, p.kernelShape);
}

// Positions of the input by {kernel, output}, from 1; 0 is none.
Shape Meets(const ConvParams& params, unsigned dim) {
  Shape meets;
  for (unsigned k = 0; k < params.kernelShape[dim]; ++k) {
    for (unsigned o = 0; o < params.getOutputSize(dim); ++o) {
      meets.push_back(getInputIndex(dim, o, k, params) + 1);
    }
  }
  return meets;
}

Attributes GeometryOf(const ConvParams& params) {
  Attributes attributes;
  attributes.Set("batch", params.batchSize)
      .Set("groups", params.numConvGroups)
      .Set("in_channels", params.inputChannelsPerConvGroup)
      .Set("out_channels", params.outputChannelsPerConvGroup)
      .Set("field", params.inputFieldShape)
      .Set("kernel", params.kernelShape)
      .Set("output", params.getOutputFieldShape());
  for (unsigned d = 0; d < params.getNumFieldDims(); ++d) {
    attributes.Set("meets" + std::to_string(d), Meets(params, d));
  }
  return attributes;
}

CallSite Checked(const char* function, Graph& graph, const ConvParams& params,
                 const DebugContext& debug, const OptionFlags& options) {
  CheckConvolutionOptions(function, options);
  CallSite site(function, graph, debug);
  try {
    params.validate();
  } catch (const poputil::poplibs_error& error) {
    site.Fail(error.what());
  }
  site.CheckFloating("the input", params.inputType);
  site.CheckFloating("the result", params.outputType);
  return site;
}

void AddConvolution(const CallSite& site, const Tensor& in, const Tensor& weights,
                    const Tensor& out, const ConvParams& params, bool transposed, Sequence& prog) {
  site.CheckShape("in", in, InputShape(params));
  site.CheckShape("weights", weights, WeightsShape(params, transposed));
  site.CheckShape("out", out, OutputShape(params));
  site.CheckType("in", in, params.inputType);
  site.CheckType("weights", weights, params.inputType);
  site.Add(prog, "poplin::convolution", GeometryOf(params).Set("transposed", transposed),
           {in, weights}, {out});
}

// A factor that is a number or a tensor.
struct Scale {
  float factor = 1;
  Tensor tensor;
};

Scale ScaleOf(float factor) { return {factor, Tensor()}; }
Scale ScaleOf(const Tensor& tensor) { return {1, tensor}; }

void AddDeltas(const CallSite& site, const Tensor& deltas, const Tensor& in, const Tensor& weights,
               const ConvParams& params, Sequence& prog, const Scale& scale, bool accumulate) {
  site.CheckShape("zDeltas", deltas, OutputShape(params));
  site.CheckShape("activations", in, InputShape(params));
  site.CheckShape("weights", weights, WeightsShape(params, false));
  std::vector<Tensor> inputs = {deltas, in};
  if (scale.tensor.valid()) inputs.push_back(scale.tensor.flatten());
  site.Add(prog, "poplin::convolutionWeightDeltas",
           GeometryOf(params).Set("factor", scale.factor).Set("accumulate", accumulate), inputs,
           {weights});
}

// {batch, channels, elements}
Tensor Flat(const CallSite& site, const char* name, const Tensor& activations,
            const Tensor& biases) {
  if (activations.rank() < 2) {
    site.Fail(std::string(name) + " has shape " + activations.shapeToString() +
              "; expected {batch, channels, field...}.");
  }
  site.CheckShape("biases", biases, {activations.dim(1)});
  return activations.reshape(
      {activations.dim(0), activations.dim(1),
       activations.numElements() / std::max<size_t>(1, activations.dim(0) * activations.dim(1))});
}

void UpdateBias(Graph& graph, const Tensor& deltas, const Tensor& biases, const Scale& scale,
                const OptionFlags& options, Sequence& prog, const DebugContext& debug) {
  poputil::CheckOptions("poplin::convolutionBiasUpdate", options,
                        {{"accumType.interTile", {"half", "float"}},
                         {"accumType.inVertex", {"half", "float"}},
                         {"partialsType", {"half", "float"}}});
  const CallSite site("poplin::convolutionBiasUpdate", graph, debug);
  site.CheckFloating("zDeltas", deltas);
  std::vector<Tensor> inputs = {Flat(site, "zDeltas", deltas, biases)};
  if (scale.tensor.valid()) inputs.push_back(scale.tensor.flatten());
  site.Add(prog, "poplin::convolutionBiasUpdate", Attributes().Set("factor", scale.factor), inputs,
           {biases});
}

// ---- figures

uint64_t Products(const ConvParams& params) {
  params.validate();
  uint64_t products = params.batchSize * params.numConvGroups * params.inputChannelsPerConvGroup *
                      params.outputChannelsPerConvGroup;
  for (unsigned d = 0; d < params.getNumFieldDims(); ++d) {
    uint64_t meetings = 0;
    for (const size_t place : Meets(params, d)) meetings += place != 0;
    products *= meetings;
  }
  return products;
}

double PerfectCycles(const Graph& graph, const ConvParams& params) {
  const poplar::Target& target = graph.getTarget();
  const unsigned rate = poplar::core::multiplyAddsPerCycle(target, params.inputType);
  return static_cast<double>(Products(params)) / rate / target.getNumTiles();
}

size_t Elements(const Shape& shape) {
  size_t count = 1;
  for (const size_t size : shape) count *= size;
  return count;
}

void Report(std::ostream& out, const char* function, const Graph& graph, const ConvParams& params,
            const OptionFlags& options) {
  CheckConvolutionOptions(function, options);
  const PlanCosts costs = reportPlanEstimatedCosts(graph, params, options);
  out << params << "products of gathered columns on the CPU\n"
      << "cycles at the full rate " << costs.cycles << ", bytes " << costs.memory << ", flops "
      << getFwdFlops(params) << "\n";
}

void CheckPlans(const std::set<ConvPlanParams>& convs) {
  for (const ConvPlanParams& conv : convs) {
    std::get<1>(conv).validate();
    const OptionFlags* options = std::get<2>(conv);
    if (options != nullptr) CheckConvolutionOptions("poplin::preplanConvolutions", *options);
  }
}

}  // namespace

// ---- passes

Tensor convolution(Graph& graph, const Tensor& in, const Tensor& weights, const ConvParams& params,
                   bool transposeAndFlipWeights, Sequence& prog, const DebugContext& debugContext,
                   const OptionFlags& options, PlanningCache*) {
  const CallSite site = Checked("poplin::convolution", graph, params, debugContext, options);
  const Tensor out = site.NewTensor(params.outputType, OutputShape(params));
  AddConvolution(site, in, weights, out, params, transposeAndFlipWeights, prog);
  return out;
}

void convolutionWithOutput(Graph& graph, const Tensor& in, const Tensor& weights, const Tensor& out,
                           const ConvParams& params, bool transposeAndFlipWeights, Sequence& prog,
                           const DebugContext& debugContext, const OptionFlags& options,
                           PlanningCache*) {
  const CallSite site =
      Checked("poplin::convolutionWithOutput", graph, params, debugContext, options);
  AddConvolution(site, in, weights, out, params, transposeAndFlipWeights, prog);
}

Tensor calculateWeightDeltas(Graph& graph, const Tensor& zDeltas, const Tensor& activations,
                             const ConvParams& params, Sequence& prog,
                             const DebugContext& debugContext, const OptionFlags& options,
                             PlanningCache*) {
  const CallSite site =
      Checked("poplin::calculateWeightDeltas", graph, params, debugContext, options);
  const Tensor out = site.NewTensor(params.outputType, WeightsShape(params, false));
  AddDeltas(site, zDeltas, activations, out, params, prog, ScaleOf(1.0f), false);
  return out;
}

void convolutionWeightUpdate(Graph& graph, const Tensor& zDeltas, const Tensor& weights,
                             const Tensor& activations, ConvParams params, const Tensor& scale,
                             Sequence& prog, const DebugContext& debugContext,
                             const OptionFlags& options, PlanningCache*) {
  const CallSite site =
      Checked("poplin::convolutionWeightUpdate", graph, params, debugContext, options);
  AddDeltas(site, zDeltas, activations, weights, params, prog, ScaleOf(scale), true);
}

void convolutionWeightUpdate(Graph& graph, const Tensor& zDeltas, const Tensor& weights,
                             const Tensor& activations, ConvParams params, float scale,
                             Sequence& prog, const DebugContext& debugContext,
                             const OptionFlags& options, PlanningCache*) {
  const CallSite site =
      Checked("poplin::convolutionWeightUpdate", graph, params, debugContext, options);
  AddDeltas(site, zDeltas, activations, weights, params, prog, ScaleOf(scale), true);
}

void addBias(Graph& graph, const Tensor& in, const Tensor& biases, Sequence& prog,
             const DebugContext& debugContext) {
  const CallSite site("poplin::addBias", graph, debugContext);
  site.CheckFloating("in", in);
  site.Add(prog, "poplin::addBias", {}, {biases}, {Flat(site, "in", in, biases)});
}

void convolutionBiasUpdate(Graph& graph, const Tensor& zDeltas, const Tensor& biases,
                           const Tensor& scale, const OptionFlags& options, Sequence& prog,
                           const DebugContext& debugContext) {
  UpdateBias(graph, zDeltas, biases, ScaleOf(scale), options, prog, debugContext);
}

void convolutionBiasUpdate(Graph& graph, const Tensor& zDeltas, const Tensor& biases, float scale,
                           const OptionFlags& options, Sequence& prog,
                           const DebugContext& debugContext) {
  UpdateBias(graph, zDeltas, biases, ScaleOf(scale), options, prog, debugContext);
}

// ---- variables

Tensor createInput(Graph& graph, const ConvParams& params, const DebugContext& debugContext,
                   const OptionFlags& options, PlanningCache*) {
  return Checked("poplin::createInput", graph, params, debugContext, options)
      .NewTensor(params.inputType, InputShape(params), "activations");
}

Tensor createWeights(Graph& graph, const ConvParams& params, const DebugContext& debugContext,
                     const OptionFlags& options, PlanningCache*) {
  return Checked("poplin::createWeights", graph, params, debugContext, options)
      .NewTensor(params.inputType, WeightsShape(params, false), "weights");
}

Tensor createConvOutput(Graph& graph, const ConvParams& params, const DebugContext& debugContext,
                        const OptionFlags& options, PlanningCache*) {
  return Checked("poplin::createConvOutput", graph, params, debugContext, options)
      .NewTensor(params.outputType, OutputShape(params));
}

Tensor createBiases(Graph& graph, const Tensor& activations, const DebugContext& debugContext) {
  const CallSite site("poplin::createBiases", graph, debugContext);
  if (activations.rank() < 2) {
    site.Fail("activations have shape " + activations.shapeToString() +
              "; expected {batch, channels, field...}.");
  }
  return site.NewTensor(activations.elementType(), {activations.dim(1)}, "biases");
}

Tensor createBiases(Graph& graph, const Tensor& activations, const ConvParams& params,
                    const DebugContext& debugContext, const OptionFlags& options, PlanningCache*) {
  const CallSite site = Checked("poplin::createBiases", graph, params, debugContext, options);
  return site.NewTensor(activations.elementType(), {params.getNumOutputChans()}, "biases");
}

// ---- weights of the backward pass

void weightsTransposeChansFlipXY(Graph&, const Tensor& weightsIn, const Tensor& weightsOut,
                                 Sequence& prog, const DebugContext& debugContext,
                                 const OptionFlags& options) {
  CheckConvolutionOptions("poplin::weightsTransposeChansFlipXY", options);
  Tensor flipped = weightsIn.dimShufflePartial({1, 2}, {2, 1});
  for (unsigned d = 3; d < flipped.rank(); ++d) flipped = flipped.reverse(d);
  prog.add(poplar::program::Copy(flipped, weightsOut, false, debugContext));
}

Tensor fullyConnectedWeightTranspose(Graph& graph, Tensor weights, const ConvParams& params,
                                     Sequence& prog, const DebugContext& debugContext,
                                     const OptionFlags& options, PlanningCache*) {
  const CallSite site =
      Checked("poplin::fullyConnectedWeightTranspose", graph, params, debugContext, options);
  if (weights.rank() < 3) {
    site.Fail("weights have shape " + weights.shapeToString() +
              "; expected {groups, output channels, input channels, kernel...}.");
  }
  const Tensor exchanged = weights.dimShufflePartial({1, 2}, {2, 1});
  const Tensor out = site.NewTensor(weights.elementType(), exchanged.shape());
  prog.add(poplar::program::Copy(exchanged, out, false, debugContext));
  return out;
}

void convolutionValidateOptions(const OptionFlags& options) {
  CheckConvolutionOptions("poplin::convolutionValidateOptions", options);
}

uint64_t getFwdFlops(const ConvParams& params) { return 2 * Products(params); }
uint64_t getBwdFlops(const ConvParams& params) { return 2 * Products(params); }
uint64_t getWuFlops(const ConvParams& params) { return 2 * Products(params); }

double getFwdPerfectCycleCount(const Graph& graph, const ConvParams& params) {
  return PerfectCycles(graph, params);
}
double getBwdPerfectCycleCount(const Graph& graph, const ConvParams& params) {
  return PerfectCycles(graph, params);
}
double getWuPerfectCycleCount(const Graph& graph, const ConvParams& params) {
  return PerfectCycles(graph, params);
}

PlanCosts reportPlanEstimatedCosts(const Graph& graph, const ConvParams& params,
                                   const OptionFlags& options, PlanningCache*) {
  CheckConvolutionOptions("poplin::reportPlanEstimatedCosts", options);
  const poplar::Target& target = graph.getTarget();
  const size_t inputs = Elements(InputShape(params)) + Elements(WeightsShape(params, false));
  return {static_cast<size_t>(PerfectCycles(graph, params)) + 1,
          inputs * target.getTypeSize(params.inputType) +
              Elements(OutputShape(params)) * target.getTypeSize(params.outputType)};
}

void reportPlanInfo(std::ostream& out, const Graph& graph, const ConvParams& params,
                    const OptionFlags& options, PlanningCache*) {
  Report(out, "poplin::reportPlanInfo", graph, params, options);
}

void reportWeightUpdatePlanInfo(std::ostream& out, const Graph& graph, const ConvParams& fwdParams,
                                const OptionFlags& options, PlanningCache*) {
  Report(out, "poplin::reportWeightUpdatePlanInfo", graph, getWeightUpdateParams(fwdParams),
         options);
}

void preplanConvolutions(const std::set<ConvPlanParams>& convs, PlanningCache&) {
  CheckPlans(convs);
}

void preplanConvolutions(Graph&, const std::set<ConvPlanParams>& convs, PlanningCache&) {
  CheckPlans(convs);
}

std::set<ConvPlanParams> matMulGetConvPlanParams(const std::set<MatMulPlanParams>& matmuls,
                                                 MatMulToConvOptions&) {
  PlanningCache cache;
  preplanMatMuls(matmuls, cache);
  return {};
}

void preplan(const std::set<ConvPlanParams>& convs, const std::set<MatMulPlanParams>& matmuls,
             PlanningCache& cache) {
  CheckPlans(convs);
  preplanMatMuls(matmuls, cache);
}

void preplan(Graph&, const std::set<ConvPlanParams>& convs,
             const std::set<MatMulPlanParams>& matmuls, PlanningCache& cache) {
  preplan(convs, matmuls, cache);
}

// ---- several

namespace multiconv {
namespace {

void CheckMultiOptions(const char* function, const OptionFlags& options) {
  poputil::CheckOptions(function, options,
                        {{"planType", {"parallel", "serial"}},
                         {"perConvReservedTiles", {}},
                         {"cycleBackOff", {}},
                         {"memoryBackOff", {}}});
}

template <typename Scale>
void UpdateAll(Graph& graph, const std::vector<ConvWeightUpdateArgs<Scale>>& args, Sequence& prog,
               const DebugContext& debug, const OptionFlags& options) {
  CheckMultiOptions("poplin::multiconv::convolutionWeightUpdate", options);
  for (const auto& a : args) {
    poplin::convolutionWeightUpdate(graph, a.zDeltas, a.weights, a.activations, a.params, a.scale,
                                    prog, debug, a.options);
  }
}

}  // namespace

Tensor createWeights(Graph& graph, const std::vector<CreateTensorArgs>& args, unsigned weightsIndex,
                     const OptionFlags& options, PlanningCache* cache) {
  CheckMultiOptions("poplin::multiconv::createWeights", options);
  const CreateTensorArgs& a = args.at(weightsIndex);
  return poplin::createWeights(graph, a.params, a.name, a.options, cache);
}

Tensor createInput(Graph& graph, const std::vector<CreateTensorArgs>& args, unsigned inputIndex,
                   const OptionFlags& options, PlanningCache* cache) {
  CheckMultiOptions("poplin::multiconv::createInput", options);
  const CreateTensorArgs& a = args.at(inputIndex);
  return poplin::createInput(graph, a.params, a.name, a.options, cache);
}

std::vector<Tensor> convolution(Graph& graph, const std::vector<ConvolutionArgs>& args,
                                bool transposeAndFlipWeights, Sequence& prog,
                                const DebugContext& debugContext, const OptionFlags& options,
                                PlanningCache* cache) {
  CheckMultiOptions("poplin::multiconv::convolution", options);
  std::vector<Tensor> results;
  for (const ConvolutionArgs& a : args) {
    results.push_back(poplin::convolution(graph, a.inputs, a.weights, a.params,
                                          transposeAndFlipWeights, prog, debugContext, a.options,
                                          cache));
  }
  return results;
}

std::vector<Tensor> calculateWeightDeltas(Graph& graph,
                                          const std::vector<CalculateWeightDeltasArgs>& args,
                                          Sequence& prog, const DebugContext& debugContext,
                                          const OptionFlags& options, PlanningCache* cache) {
  CheckMultiOptions("poplin::multiconv::calculateWeightDeltas", options);
  std::vector<Tensor> results;
  for (const CalculateWeightDeltasArgs& a : args) {
    results.push_back(poplin::calculateWeightDeltas(graph, a.zDeltas, a.activations, a.params, prog,
                                                    debugContext, a.options, cache));
  }
  return results;
}

void convolutionWeightUpdate(Graph& graph, const std::vector<ConvWeightUpdateArgs<Tensor>>& args,
                             Sequence& prog, const DebugContext& debugContext,
                             const OptionFlags& options, PlanningCache*) {
  UpdateAll(graph, args, prog, debugContext, options);
}

void convolutionWeightUpdate(Graph& graph, const std::vector<ConvWeightUpdateArgs<float>>& args,
                             Sequence& prog, const DebugContext& debugContext,
                             const OptionFlags& options, PlanningCache*) {
  UpdateAll(graph, args, prog, debugContext, options);
}

void weightsTransposeChansFlipXY(Graph& graph, std::vector<ConvolutionArgs>& args,
                                 const std::vector<Tensor>& weightsIn, Sequence& prog,
                                 const OptionFlags& options, const DebugContext& debugContext,
                                 PlanningCache*) {
  CheckMultiOptions("poplin::multiconv::weightsTransposeChansFlipXY", options);
  for (size_t i = 0; i < args.size(); ++i) {
    poplin::weightsTransposeChansFlipXY(graph, weightsIn.at(i), args[i].weights, prog, debugContext,
                                        args[i].options);
  }
}

}  // namespace multiconv

}  // namespace poplin
