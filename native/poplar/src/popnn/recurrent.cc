#include "popnn/recurrent.h"

#include "popnn/NonLinearityDefUtil.hpp"

namespace popnn {
namespace {

bool HasDerivativeOfResult(NonLinearityType type) {
  bool has = false;
  WithFunction(type, [&](auto function) { has = !function.kOfInput; });
  return has;
}

void CheckActivation(const poputil::CallSite& site, NonLinearityType type) {
  if (HasDerivativeOfResult(type)) return;
  site.Fail(std::string("the activation is ") + asString(type) +
            "; expected SIGMOID, HARD_SIGMOID, RELU or TANH.");
}

}  // namespace

void CheckRecurrentOptions(const char* function, const poplar::OptionFlags& options) {
  const std::vector<const char*> flag = {"true", "false"};
  poputil::CheckOptions(function, options,
                        {{"inferenceOnly", flag},
                         {"availableMemoryProportion", {}},
                         {"partialsType", {"half", "float"}},
                         {"weightAccumulatorsType", {"half", "float"}},
                         {"preCalcWeights", flag},
                         {"recomputationMode", {"none", "cellAndTanh", "full"}},
                         {"numShards", {}},
                         {"rnnCodeReuse", {"true", "false", "auto"}},
                         {"rnnStepsPerWU", {}}});
}

void CheckLayer(const poputil::CallSite& site, const rnn::RnnParams& params, bool weighs_input,
                NonLinearityType activation, NonLinearityType gate_activation) {
  site.CheckFloating("dataType", params.dataType);
  if (params.layerSizes.size() != 2) {
    site.Fail("layerSizes are " + poputil::ShapeText(params.layerSizes) +
              "; expected {input, output}.");
  }
  if (params.variableTimeSteps()) {
    site.Fail("numbers of steps that vary are not supported; give the number of all steps.");
  }
  if (!weighs_input) {
    site.Fail("inputs that are weighted already are not supported; set doInputWeightCalc.");
  }
  CheckActivation(site, activation);
  CheckActivation(site, gate_activation);
}

uint64_t LayerProducts(const rnn::RnnParams& params, size_t units) {
  const uint64_t input = params.layerSizes[0], hidden = params.layerSizes[1];
  return params.timeSteps * params.batchSize * units * hidden * (input + hidden);
}

namespace rnn {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poputil::CallSite;

namespace {

Tensor NewSequence(const char* function, Graph& graph, const RnnParams& params, size_t size,
                   const DebugContext& debug) {
  return CallSite(function, graph, debug)
      .NewTensor(params.dataType, {params.maxTimeSteps, params.batchSize, size}, "sequence");
}

}  // namespace

Tensor createInitialState(Graph& graph, const RnnParams& params, bool isOutput, unsigned multiple,
                          unsigned, const DebugContext& debugContext) {
  const size_t size = isOutput ? params.layerSizes.back() : params.layerSizes.front();
  return CallSite("popnn::rnn::createInitialState", graph, debugContext)
      .NewTensor(params.dataType, {multiple * params.batchSize, size}, "state");
}

Tensor createRecurrentTensor(Graph& graph, const RnnParams& params, unsigned size, unsigned,
                             const DebugContext& debugContext) {
  return NewSequence("popnn::rnn::createRecurrentTensor", graph, params, size, debugContext);
}

Tensor createInputTensor(Graph& graph, const RnnParams& params, unsigned,
                         const DebugContext& debugContext) {
  return NewSequence("popnn::rnn::createInputTensor", graph, params, params.layerSizes.front(),
                     debugContext);
}

Tensor createOutputTensor(Graph& graph, const RnnParams& params, unsigned,
                          const DebugContext& debugContext) {
  return NewSequence("popnn::rnn::createOutputTensor", graph, params, params.layerSizes.back(),
                     debugContext);
}

}  // namespace rnn
}  // namespace popnn
