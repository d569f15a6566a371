#include "popnn/recurrent.h"

#include "popnn/NonLinearityDefUtil.hpp"

namespace popnn {
namespace {

bool HasDerivativeOfResult(NonLinearityType type) {
  bool has = false;
  WithFunction(type, [&](auto function) { has = !function.kOfInput; });
  return has;
}

}  // namespace

void CheckActivation(const poputil::CallSite& site, NonLinearityType type) {
  if (HasDerivativeOfResult(type)) return;
  site.Fail(std::string("the activation is ") + asString(type) +
            "; expected SIGMOID, HARD_SIGMOID, RELU or TANH.");
}

poplar::core::MatrixWork ForwardWork(const poplar::core::KernelSpec& spec) {
  const Cell cell{poputil::Attributes(spec.parameters)};
  return {cell.steps, 1, cell.batch, cell.input + cell.hidden, cell.slots.size() * cell.hidden};
}

poplar::core::MatrixWork BackwardWork(const poplar::core::KernelSpec& spec) {
  const poplar::core::MatrixWork forward = ForwardWork(spec);
  return {forward.times, 1, forward.rows, forward.columns, forward.inner};
}

poplar::core::MatrixWork WeightWork(const poplar::core::KernelSpec& spec) {
  const poplar::core::MatrixWork forward = ForwardWork(spec);
  return {forward.times, 1, forward.inner, forward.rows, forward.columns};
}

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

}  // namespace popnn
