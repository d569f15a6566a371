#include "popnn/NonLinearity.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <istream>
#include <iterator>
#include <string>
#include <vector>

#include "popnn/LogSoftmax.hpp"
#include "popnn/NonLinearityDefUtil.hpp"
#include "popnn/SpatialSoftMax.hpp"
#include "popnn/activation_functions.h"
#include "popnn/codelets.hpp"
#include "poputil/call_site.h"
#include "poputil/float_kernel.h"

namespace popnn {

using poplar::ComputeSet;
using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::core::KernelAliasing;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using poputil::KernelCall;

void addCodelets(Graph&) {}

namespace {

constexpr size_t kGrain = 1 << 12;
// The factor of SOFTMAX_SCALED: it keeps small probabilities in the range of half.
constexpr float kSoftmaxScale = 16.0f;

constexpr const char* kNames[] = {"SIGMOID",        "HARD_SIGMOID",  "RELU",  "TANH",
                                  "GELU",           "GELU_ERF",      "SWISH", "SOFTMAX",
                                  "SOFTMAX_STABLE", "SOFTMAX_SCALED"};

bool IsSoftmax(NonLinearityType type) {
  return type == NonLinearityType::SOFTMAX || type == NonLinearityType::SOFTMAX_STABLE ||
         type == NonLinearityType::SOFTMAX_SCALED;
}

float ScaleOf(NonLinearityType type) {
  return type == NonLinearityType::SOFTMAX_SCALED ? kSoftmaxScale : 1.0f;
}

// ---- kernels

NonLinearityType TypeOf(const KernelCall& call) {
  return static_cast<NonLinearityType>(call.attributes.Int("type"));
}

// Calls `work(row)` for the rows of the last dimension.
template <typename Work>
void ForRows(const std::vector<size_t>& shape, const Work& work) {
  const size_t width = shape.empty() ? 1 : shape.back();
  if (width == 0) return;
  const size_t rows = KernelCall::Product(shape) / width;
  poplar::core::parallelFor(rows, kGrain / width + 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) work(row * width, width);
  });
}

void SoftmaxRow(const float* x, size_t width, float scale, float* y) {
  const float greatest = *std::max_element(x, x + width);
  float sum = 0;
  for (size_t i = 0; i < width; ++i) sum += y[i] = std::exp(x[i] - greatest);
  for (size_t i = 0; i < width; ++i) y[i] *= scale / sum;
}

void NonLinearity(const KernelCall& call) {
  const NonLinearityType type = TypeOf(call);
  const float* x = call.in(0);
  float* y = call.out(0);
  if (IsSoftmax(type)) {
    return ForRows(call.OutShape(0), [&](size_t at, size_t width) {
      SoftmaxRow(x + at, width, ScaleOf(type), y + at);
    });
  }
  poplar::core::parallelFor(call.OutSize(0), kGrain, [&](size_t begin, size_t end) {
    WithFunction(type, [&](auto function) {
      for (size_t i = begin; i < end; ++i) y[i] = function.Value(x[i]);
    });
  });
}

void InputGradient(const KernelCall& call) {
  const NonLinearityType type = TypeOf(call);
  const float *act = call.in(0), *gradient = call.in(1);
  float* out = call.out(0);
  if (IsSoftmax(type)) {
    return ForRows(call.OutShape(0), [&](size_t at, size_t width) {
      float sum = 0;
      for (size_t i = at; i < at + width; ++i) sum += act[i] * gradient[i];
      sum /= ScaleOf(type);
      for (size_t i = at; i < at + width; ++i) out[i] = act[i] * (gradient[i] - sum);
    });
  }
  poplar::core::parallelFor(call.OutSize(0), kGrain, [&](size_t begin, size_t end) {
    WithFunction(type, [&](auto function) {
      for (size_t i = begin; i < end; ++i) out[i] = gradient[i] * function.Derivative(act[i]);
    });
  });
}

void LogSoftmax(const KernelCall& call) {
  ForRows(call.OutShape(0), [&](size_t at, size_t width) {
    const float* x = call.in(0) + at;
    float* y = call.out(0) + at;
    const float greatest = *std::max_element(x, x + width);
    float sum = 0;
    for (size_t i = 0; i < width; ++i) sum += std::exp(x[i] - greatest);
    const float offset = greatest + std::log(sum);
    for (size_t i = 0; i < width; ++i) y[i] = x[i] - offset;
  });
}

// From -1 for the first position to 1 for the last one.
float Coordinate(size_t index, size_t size) {
  return size == 1 ? 0.0f : -1 + 2 * static_cast<float>(index) / static_cast<float>(size - 1);
}

void SpatialSoftmax(const KernelCall& call) {
  const std::vector<size_t>& shape = call.InShape(0);
  const size_t height = shape[1], width = shape[2];
  std::vector<float> field(height * width);
  for (size_t n = 0; n < shape[0]; ++n) {
    const float* in = call.in(0) + n * field.size();
    for (size_t i = 0; i < field.size(); ++i) field[i] = in[i] / call.in(1)[0];
    if (call.attributes.Bool("softmax")) SoftmaxRow(field.data(), field.size(), 1, field.data());
    float row = 0, column = 0;
    for (size_t i = 0; i < field.size(); ++i) {
      row += field[i] * Coordinate(i / width, height);
      column += field[i] * Coordinate(i % width, width);
    }
    call.out(0)[2 * n] = row;
    call.out(0)[2 * n + 1] = column;
  }
}

const poputil::FloatKernelRegistration kNonLinearity("popnn::nonLinearity", NonLinearity);
const poputil::FloatKernelRegistration kGradient("popnn::nonLinearityInputGradient", InputGradient);
const poputil::FloatKernelRegistration kLogSoftmax("popnn::logSoftmax", LogSoftmax);
const poputil::FloatKernelRegistration kSpatial("popnn::spatialSoftMax2D", SpatialSoftmax);

// ---- ops

void CheckRows(const CallSite& site, const Tensor& t) {
  if (t.rank() == 0) site.Fail("t is a scalar; expected the dimension of classes.");
}

void Add(const CallSite& site, NonLinearityType type, const Tensor& in, const Tensor& out,
         Sequence& prog) {
  site.CheckFloating("t", in);
  if (IsSoftmax(type)) CheckRows(site, in);
  // Softmax reads a row before it writes it, and so do parallel parts.
  site.Add(prog, "popnn::nonLinearity", Attributes().Set("type", static_cast<int>(type)), {in},
           {out}, KernelAliasing::SameTensor);
}

Tensor AddGradient(const CallSite& site, NonLinearityType type, const Tensor& act,
                   const Tensor& gradient, Sequence& prog) {
  site.CheckFloating("act", act);
  site.CheckShape("outGradient", gradient, act.shape());
  if (IsSoftmax(type)) CheckRows(site, act);
  const Tensor out = site.NewLike(gradient.elementType(), gradient, "gradient");
  site.Add(prog, "popnn::nonLinearityInputGradient",
           Attributes().Set("type", static_cast<int>(type)), {act, gradient}, {out});
  return out;
}

Tensor Apply(const char* function, Graph& graph, NonLinearityType type, const Tensor& t,
             Sequence& prog, const DebugContext& debug) {
  const CallSite site(function, graph, debug);
  const Tensor out = site.NewLike(t.elementType(), t);
  Add(site, type, t, out, prog);
  return out;
}

}  // namespace

const char* asString(NonLinearityType type) { return kNames[static_cast<size_t>(type)]; }

std::ostream& operator<<(std::ostream& os, NonLinearityType type) { return os << asString(type); }

std::istream& operator>>(std::istream& is, NonLinearityType& type) {
  std::string word;
  is >> word;
  for (char& letter : word) letter = static_cast<char>(std::toupper(letter));
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (word != kNames[i]) continue;
    type = static_cast<NonLinearityType>(i);
    return is;
  }
  is.setstate(std::ios::failbit);
  return is;
}

Tensor nonLinearity(Graph& graph, NonLinearityType nonLinearityType, Tensor t, Sequence& prog,
                    const DebugContext& debugContext) {
  return Apply("popnn::nonLinearity", graph, nonLinearityType, t, prog, debugContext);
}

Tensor nonLinearity(Graph& graph, NonLinearityType nonLinearityType, Tensor t,
                    float& nonLinearityScaling, Sequence& prog, const DebugContext& debugContext) {
  nonLinearityScaling = ScaleOf(nonLinearityType);
  return nonLinearity(graph, nonLinearityType, t, prog, debugContext);
}

void nonLinearityInPlace(Graph& graph, NonLinearityType nonLinearityType, Tensor t, Sequence& prog,
                         const DebugContext& debugContext) {
  Add(CallSite("popnn::nonLinearityInPlace", graph, debugContext), nonLinearityType, t, t, prog);
}

void nonLinearityInPlace(Graph& graph, NonLinearityType nonLinearityType, Tensor t,
                         float& nonLinearityScaling, Sequence& prog,
                         const DebugContext& debugContext) {
  nonLinearityScaling = ScaleOf(nonLinearityType);
  nonLinearityInPlace(graph, nonLinearityType, t, prog, debugContext);
}

Tensor nonLinearityInputGradient(Graph& graph, NonLinearityType nonLinearityType, Tensor act,
                                 Tensor outGradient, Sequence& prog,
                                 const DebugContext& debugContext) {
  return AddGradient(CallSite("popnn::nonLinearityInputGradient", graph, debugContext),
                     nonLinearityType, act, outGradient, prog);
}

Tensor nonLinearityInputGradient(Graph& graph, NonLinearityType nonLinearityType, Tensor act,
                                 Tensor outGradient, ComputeSet& cs,
                                 const DebugContext& debugContext) {
  Sequence op;
  const Tensor out = AddGradient(CallSite("popnn::nonLinearityInputGradient", graph, debugContext),
                                 nonLinearityType, act, outGradient, op);
  poplar::core::addToComputeSet(graph, cs, op);
  return out;
}

void nonLinearityInPlace(Graph& graph, NonLinearityType nonLinearityType, Tensor t, ComputeSet& cs,
                         const DebugContext& debugContext) {
  Sequence op;
  nonLinearityInPlace(graph, nonLinearityType, t, op, debugContext);
  poplar::core::addToComputeSet(graph, cs, op);
}

void nonLinearityInPlace(Graph& graph, NonLinearityType nonLinearityType, Tensor t,
                         float& nonLinearityScaling, ComputeSet& cs,
                         const DebugContext& debugContext) {
  nonLinearityScaling = ScaleOf(nonLinearityType);
  nonLinearityInPlace(graph, nonLinearityType, t, cs, debugContext);
}

#define POPNN_DEFINE_NONLINEARITY(NAME, TYPE)                                                    \
  Tensor NAME(Graph& graph, Tensor t, Sequence& prog, const DebugContext& debugContext) {        \
    return nonLinearity(graph, NonLinearityType::TYPE, t, prog, debugContext);                   \
  }                                                                                              \
  Tensor NAME(Graph& graph, Tensor t, float& nonLinearityScaling, Sequence& prog,                \
              const DebugContext& debugContext) {                                                \
    return nonLinearity(graph, NonLinearityType::TYPE, t, nonLinearityScaling, prog,             \
                        debugContext);                                                           \
  }                                                                                              \
  void NAME##InPlace(Graph& graph, Tensor t, Sequence& prog, const DebugContext& debugContext) { \
    nonLinearityInPlace(graph, NonLinearityType::TYPE, t, prog, debugContext);                   \
  }                                                                                              \
  void NAME##InPlace(Graph& graph, Tensor t, float& nonLinearityScaling, Sequence& prog,         \
                     const DebugContext& debugContext) {                                         \
    nonLinearityInPlace(graph, NonLinearityType::TYPE, t, nonLinearityScaling, prog,             \
                        debugContext);                                                           \
  }

POPNN_DEFINE_NONLINEARITY(sigmoid, SIGMOID)
POPNN_DEFINE_NONLINEARITY(hardSigmoid, HARD_SIGMOID)
POPNN_DEFINE_NONLINEARITY(relu, RELU)
POPNN_DEFINE_NONLINEARITY(tanh, TANH)
POPNN_DEFINE_NONLINEARITY(gelu, GELU)
POPNN_DEFINE_NONLINEARITY(geluErf, GELU_ERF)
POPNN_DEFINE_NONLINEARITY(swish, SWISH)
POPNN_DEFINE_NONLINEARITY(softmax, SOFTMAX)
POPNN_DEFINE_NONLINEARITY(softmaxStable, SOFTMAX_STABLE)
POPNN_DEFINE_NONLINEARITY(scaledSoftmax, SOFTMAX_SCALED)

#undef POPNN_DEFINE_NONLINEARITY

Tensor logSoftmax(Graph& graph, Tensor t, Sequence& prog, const DebugContext& debugContext) {
  const CallSite site("popnn::logSoftmax", graph, debugContext);
  site.CheckFloating("t", t);
  CheckRows(site, t);
  const Tensor out = site.NewLike(t.elementType(), t);
  site.Add(prog, "popnn::logSoftmax", {}, {t}, {out});
  return out;
}

void logSoftmaxInPlace(Graph& graph, Tensor t, Sequence& prog, const DebugContext& debugContext) {
  const CallSite site("popnn::logSoftmaxInPlace", graph, debugContext);
  site.CheckFloating("t", t);
  CheckRows(site, t);
  site.Add(prog, "popnn::logSoftmax", {}, {t}, {t}, KernelAliasing::SameTensor);
}

std::pair<Tensor, Tensor> spatialSoftMax2D(Graph& graph, Sequence& prog, const Tensor& fields,
                                           float temperature, bool disableSoftmax,
                                           const DebugContext& debugContext) {
  const CallSite site("popnn::spatialSoftMax2D", graph, debugContext);
  site.CheckFloating("fields", fields);
  site.CheckRank("fields", fields, 3);
  const Tensor scalar = graph.addVariable(fields.elementType(), {}, "temperature");
  graph.setTileMapping(scalar, 0);
  graph.setInitialValue(scalar, temperature);
  const Tensor out = site.NewTensor(fields.elementType(), {fields.dim(0), 2}, "coordinates");
  site.Add(prog, "popnn::spatialSoftMax2D", Attributes().Set("softmax", !disableSoftmax),
           {fields, scalar}, {out});
  return {out, scalar};
}

}  // namespace popnn
