#include "popnn/Loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "poputil/call_site.h"
#include "poputil/float_kernel.h"

namespace popnn {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Program;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using poputil::KernelCall;

namespace {

// ---- kernels

constexpr size_t kNoClass = ~size_t{0};
// Probabilities are at least this, so that each has a logarithm.
constexpr float kLeast = std::numeric_limits<float>::min();

// The label of a row, or none if it is not a class.
size_t LabelOf(const KernelCall& call, size_t index, size_t row, size_t classes) {
  const int64_t label = call.spec.inputs[index].type == poplar::INT
                            ? call.InAs<int32_t>(index)[row]
                            : static_cast<int64_t>(call.InAs<uint32_t>(index)[row]);
  return label >= 0 && static_cast<size_t>(label) < classes ? static_cast<size_t>(label) : kNoClass;
}

// The expected values of a row.
void ExpectedRow(const KernelCall& call, size_t row, std::vector<float>* expected) {
  const size_t classes = expected->size();
  if (call.InShape(1).size() == 2) {
    const float* values = call.in(1) + row * classes;
    std::copy(values, values + classes, expected->begin());
    return;
  }
  std::fill(expected->begin(), expected->end(), 0.0f);
  const size_t label = LabelOf(call, 1, row, classes);
  if (label != kNoClass) (*expected)[label] = 1;
}

void SquaredRow(const float* outputs, const std::vector<float>& expected, float* loss,
                float* deltas) {
  float sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    deltas[i] = outputs[i] - expected[i];
    sum += deltas[i] * deltas[i];
  }
  *loss = 0.5f * sum;
}

void CrossEntropyRow(const float* outputs, const std::vector<float>& expected, float scale,
                     float deltas_scale, float* loss, float* deltas) {
  const bool masked = std::all_of(expected.begin(), expected.end(), [](float e) { return e == 0; });
  float sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const float probability = outputs[i] / scale;
    deltas[i] = masked ? 0.0f : deltas_scale * (probability - expected[i]);
    if (expected[i] != 0) sum -= expected[i] * std::log(std::max(probability, kLeast));
  }
  *loss = sum;
}

// Inputs: outputs, expected, and for scales deltasScale and modelOutputScaling.
void LossKernel(const KernelCall& call) {
  const size_t classes = call.InShape(0)[1];
  const bool scaled = call.inputs.size() > 2;
  std::vector<float> expected(classes);
  for (size_t row = 0; row < call.InShape(0)[0]; ++row) {
    ExpectedRow(call, row, &expected);
    const float* outputs = call.in(0) + row * classes;
    float* deltas = call.out(1) + row * classes;
    if (call.attributes.Bool("squared")) {
      SquaredRow(outputs, expected, call.out(0) + row, deltas);
    } else {
      CrossEntropyRow(outputs, expected, scaled ? call.in(3)[0] : 1.0f,
                      scaled ? call.in(2)[0] : 1.0f, call.out(0) + row, deltas);
    }
  }
}

void AccuracyKernel(const KernelCall& call) {
  const size_t classes = call.InShape(0)[1];
  uint32_t correct = 0;
  std::vector<float> expected(classes);
  for (size_t row = 0; row < call.InShape(0)[0]; ++row) {
    const float* outputs = call.in(0) + row * classes;
    const size_t found =
        static_cast<size_t>(std::max_element(outputs, outputs + classes) - outputs);
    if (call.InShape(1).size() == 1) {
      correct += found == LabelOf(call, 1, row, classes);
      continue;
    }
    ExpectedRow(call, row, &expected);
    correct += expected[found] == *std::max_element(expected.begin(), expected.end());
  }
  call.OutAs<uint32_t>(0)[0] = correct;
}

// Sorts the `count` first places of each row of values of type T to the front.
template <typename T>
void SelectRows(const KernelCall& call, size_t count) {
  const bool least = call.attributes.Bool("least");
  const size_t width = call.InShape(0)[1];
  std::vector<uint32_t> order(width);
  for (size_t row = 0; row < call.InShape(0)[0]; ++row) {
    const T* values = call.InAs<T>(0) + row * width;
    std::iota(order.begin(), order.end(), 0u);
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [values, least](uint32_t a, uint32_t b) {
                        if (values[a] == values[b]) return a < b;
                        return least ? values[a] < values[b] : values[a] > values[b];
                      });
    std::copy(order.begin(), order.begin() + count, call.OutAs<uint32_t>(0) + row * count);
    if (call.outputs.size() == 1) continue;
    T* selected = call.OutAs<T>(1) + row * count;
    for (size_t i = 0; i < count; ++i) selected[i] = values[order[i]];
  }
}

// Outputs: places, and the elements if there is a second one.
void SelectKernel(const KernelCall& call) {
  const size_t count = call.attributes.Size("count");
  const poplar::Type& type = call.spec.inputs[0].type;
  if (type == poplar::INT) return SelectRows<int32_t>(call, count);
  if (type == poplar::UNSIGNED_INT) return SelectRows<uint32_t>(call, count);
  SelectRows<float>(call, count);
}

const poputil::FloatKernelRegistration kLoss("popnn::calcLoss", LossKernel);
const poputil::FloatKernelRegistration kAccuracy("popnn::calcAccuracy", AccuracyKernel);
const poputil::FloatKernelRegistration kSelect("popnn::select", SelectKernel);

// ---- losses

void CheckExpected(const CallSite& site, const Tensor& outputs, const Tensor& expected) {
  site.CheckFloating("modelOutputs", outputs);
  site.CheckRank("modelOutputs", outputs, 2);
  const poplar::Type type = expected.elementType();
  const bool labels = type == poplar::INT || type == poplar::UNSIGNED_INT;
  if (labels) return site.CheckShape("expected", expected, {outputs.dim(0)});
  site.CheckFloating("expected", expected);
  site.CheckShape("expected", expected, outputs.shape());
}

void AddAccuracy(const CallSite& site, const Tensor& outputs, const Tensor& expected,
                 const Tensor& correct, Sequence& prog) {
  site.CheckType("numCorrect", correct, poplar::UNSIGNED_INT);
  if (correct.numElements() != 1) {
    site.Fail("numCorrect has shape " + correct.shapeToString() + "; expected one element.");
  }
  site.Add(prog, "popnn::calcAccuracy", {}, {outputs, expected}, {correct.flatten()});
}

Sequence AddLoss(const CallSite& site, const Tensor& outputs, const Tensor& expected,
                 const Tensor& loss, const Tensor& deltas, std::vector<Tensor> scales,
                 LossType type) {
  CheckExpected(site, outputs, expected);
  site.CheckFloating("loss", loss);
  site.CheckShape("loss", loss, {outputs.dim(0)});
  site.CheckFloating("deltas", deltas);
  site.CheckShape("deltas", deltas, outputs.shape());
  std::vector<Tensor> inputs = {outputs, expected};
  for (const Tensor& scale : scales) inputs.push_back(scale.flatten());
  Sequence prog;
  site.Add(prog, "popnn::calcLoss", Attributes().Set("squared", type == SUM_SQUARED_LOSS), inputs,
           {loss, deltas});
  return prog;
}

// ---- selections

std::pair<Tensor, Tensor> Select(const char* function, Graph& graph, const Tensor& input,
                                 unsigned count, bool least, bool values, Sequence& prog,
                                 const DebugContext& debug) {
  const CallSite site(function, graph, debug);
  site.CheckRank("input", input, 2);
  const poplar::Type type = input.elementType();
  if (type != poplar::INT && type != poplar::UNSIGNED_INT) site.CheckFloating("input", type);
  if (count > input.dim(1) || input.dim(1) == 0) {
    site.Fail("input has shape " + input.shapeToString() + "; expected {batch, classes} with " +
              std::to_string(std::max(count, 1u)) + " classes or more.");
  }
  const Tensor places = site.NewTensor(poplar::UNSIGNED_INT, {input.dim(0), count}, "indices");
  std::vector<Tensor> outputs = {places};
  if (values) outputs.push_back(site.NewTensor(type, {input.dim(0), count}, "values"));
  site.Add(prog, "popnn::select", Attributes().Set("least", least).Set("count", count), {input},
           outputs);
  return {places, outputs.back()};
}

Tensor Place(const char* function, Graph& graph, const Tensor& input, bool least, Sequence& prog,
             const DebugContext& debug) {
  return Select(function, graph, input, 1, least, false, prog, debug).first.flatten();
}

std::pair<Tensor, Tensor> ValueAndPlace(const char* function, Graph& graph, const Tensor& input,
                                        bool least, Sequence& prog, const DebugContext& debug) {
  const auto found = Select(function, graph, input, 1, least, true, prog, debug);
  return {found.second.flatten(), found.first.flatten()};
}

}  // namespace

Program calcLoss(Graph& graph, const Tensor& modelOutputs, const Tensor& expected,
                 const Tensor& loss, const Tensor& deltas, const Tensor& deltasScale,
                 const Tensor& modelOutputScaling, LossType lossType,
                 const DebugContext& debugContext) {
  return AddLoss(CallSite("popnn::calcLoss", graph, debugContext), modelOutputs, expected, loss,
                 deltas, {deltasScale, modelOutputScaling}, lossType);
}

Program calcLoss(Graph& graph, const Tensor& modelOutputs, const Tensor& expected,
                 const Tensor& loss, const Tensor& deltas, LossType lossType,
                 const DebugContext& debugContext) {
  return AddLoss(CallSite("popnn::calcLoss", graph, debugContext), modelOutputs, expected, loss,
                 deltas, {}, lossType);
}

Program calcLoss(Graph& graph, const Tensor& modelOutputs, const Tensor& expected,
                 const Tensor& loss, const Tensor& deltas, const Tensor& deltasScale,
                 const Tensor& modelOutputScaling, const Tensor& numCorrect, LossType lossType,
                 const DebugContext& debugContext) {
  const CallSite site("popnn::calcLoss", graph, debugContext);
  Sequence prog = AddLoss(site, modelOutputs, expected, loss, deltas,
                          {deltasScale, modelOutputScaling}, lossType);
  AddAccuracy(site, modelOutputs, expected, numCorrect, prog);
  return prog;
}

Program calcLoss(Graph& graph, const Tensor& modelOutputs, const Tensor& expected,
                 const Tensor& loss, const Tensor& deltas, const Tensor& numCorrect,
                 LossType lossType, const DebugContext& debugContext) {
  const CallSite site("popnn::calcLoss", graph, debugContext);
  Sequence prog = AddLoss(site, modelOutputs, expected, loss, deltas, {}, lossType);
  AddAccuracy(site, modelOutputs, expected, numCorrect, prog);
  return prog;
}

Program calcAccuracy(Graph& graph, const Tensor& modelOutputs, const Tensor& expected,
                     const Tensor& numCorrect, const DebugContext& debugContext) {
  const CallSite site("popnn::calcAccuracy", graph, debugContext);
  CheckExpected(site, modelOutputs, expected);
  Sequence prog;
  AddAccuracy(site, modelOutputs, expected, numCorrect, prog);
  return prog;
}

Tensor argMax(Graph& graph, const Tensor& input, Sequence& prog, const DebugContext& debugContext) {
  return Place("popnn::argMax", graph, input, false, prog, debugContext);
}

Tensor argMin(Graph& graph, const Tensor& input, Sequence& prog, const DebugContext& debugContext) {
  return Place("popnn::argMin", graph, input, true, prog, debugContext);
}

std::pair<Tensor, Tensor> maxAndArgMax(Graph& graph, const Tensor& input, Sequence& prog,
                                       const DebugContext& debugContext) {
  return ValueAndPlace("popnn::maxAndArgMax", graph, input, false, prog, debugContext);
}

std::pair<Tensor, Tensor> minAndArgMin(Graph& graph, const Tensor& input, Sequence& prog,
                                       const DebugContext& debugContext) {
  return ValueAndPlace("popnn::minAndArgMin", graph, input, true, prog, debugContext);
}

Tensor topK(Graph& graph, const Tensor& input, Tensor& indices, unsigned K, bool, Sequence& prog,
            const DebugContext& debugContext) {
  const auto found = Select("popnn::topK", graph, input, K, false, true, prog, debugContext);
  indices = found.first;
  return found.second;
}

}  // namespace popnn
