#include "popnn/Pooling.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "poputil/call_site.h"
#include "poputil/exceptions.hpp"
#include "poputil/float_kernel.h"

namespace popnn {
namespace pooling {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using poputil::KernelCall;
using Shape = std::vector<size_t>;

namespace {

// ---- kernels

// One dimension of a field: the range of inputs of each window.
struct Dimension {
  size_t input, output;
  Shape begin, end;
};

class Windows {
 public:
  explicit Windows(const Attributes& attributes) {
    const Shape input = attributes.Sizes("field"), output = attributes.Sizes("output");
    for (size_t d = 0; d < input.size(); ++d) {
      const std::string number = std::to_string(d);
      dimensions_.push_back({input[d], output[d], attributes.Sizes("begin" + number),
                             attributes.Sizes("end" + number)});
      input_size_ *= input[d];
      output_size_ *= output[d];
    }
  }

  size_t input_size() const { return input_size_; }
  size_t output_size() const { return output_size_; }

  // Calls `use(element)` for the elements of a window.
  template <typename Use>
  void ForElements(size_t window, const Use& use) const {
    Visit(0, window, output_size_, 0, use);
  }

 private:
  template <typename Use>
  void Visit(size_t d, size_t window, size_t windows, size_t element, const Use& use) const {
    if (d == dimensions_.size()) return use(element);
    const Dimension& dimension = dimensions_[d];
    windows /= dimension.output;
    const size_t place = window / windows;
    for (size_t i = dimension.begin[place]; i < dimension.end[place]; ++i) {
      Visit(d + 1, window % windows, windows, element * dimension.input + i, use);
    }
  }

  std::vector<Dimension> dimensions_;
  size_t input_size_ = 1, output_size_ = 1;
};

PoolingType TypeOf(const KernelCall& call) {
  return static_cast<PoolingType>(call.attributes.Int("type"));
}

float PoolWindow(const Windows& windows, size_t window, const float* in, PoolingType type) {
  float sum = 0, greatest = -std::numeric_limits<float>::infinity();
  size_t count = 0;
  windows.ForElements(window, [&](size_t element) {
    sum += in[element];
    greatest = std::max(greatest, in[element]);
    ++count;
  });
  if (type == PoolingType::MAX) return greatest;
  return type == PoolingType::SUM || count == 0 ? sum : sum / static_cast<float>(count);
}

// Calls `work(channel)` for the fields of all images and channels.
template <typename Work>
void ForFields(const Shape& shape, const Work& work) {
  poplar::core::parallelFor(shape[0] * shape[1], 1, [&](size_t begin, size_t end) {
    for (size_t channel = begin; channel < end; ++channel) work(channel);
  });
}

void PoolKernel(const KernelCall& call) {
  const Windows windows(call.attributes);
  const PoolingType type = TypeOf(call);
  ForFields(call.OutShape(0), [&](size_t channel) {
    const float* in = call.in(0) + channel * windows.input_size();
    float* out = call.out(0) + channel * windows.output_size();
    for (size_t w = 0; w < windows.output_size(); ++w) out[w] = PoolWindow(windows, w, in, type);
  });
}

// Adds the gradient of a window to that of its elements.
void AddGradient(const Windows& windows, size_t window, float gradient, PoolingType type,
                 float* out) {
  if (type == PoolingType::AVG) {
    size_t count = 0;
    windows.ForElements(window, [&](size_t) { ++count; });
    gradient /= static_cast<float>(std::max<size_t>(1, count));
  }
  windows.ForElements(window, [&](size_t element) { out[element] += gradient; });
}

void AddMaxGradient(const Windows& windows, size_t window, float gradient, const float* in,
                    float greatest, bool scaled, float* out) {
  if (scaled) {
    size_t count = 0;
    windows.ForElements(window, [&](size_t element) { count += in[element] == greatest; });
    gradient /= static_cast<float>(std::max<size_t>(1, count));
  }
  windows.ForElements(window, [&](size_t element) {
    if (in[element] == greatest) out[element] += gradient;
  });
}

// Inputs: gradient of the result, and for MAX input and result.
void GradientKernel(const KernelCall& call) {
  const Windows windows(call.attributes);
  const PoolingType type = TypeOf(call);
  const bool scaled = call.attributes.Bool("scaled");
  ForFields(call.OutShape(0), [&](size_t channel) {
    const size_t in_at = channel * windows.input_size(), at = channel * windows.output_size();
    float* out = call.out(0) + in_at;
    std::fill(out, out + windows.input_size(), 0.0f);
    for (size_t w = 0; w < windows.output_size(); ++w) {
      const float gradient = call.in(0)[at + w];
      if (type == PoolingType::MAX) {
        AddMaxGradient(windows, w, gradient, call.in(1) + in_at, call.in(2)[at + w], scaled, out);
      } else {
        AddGradient(windows, w, gradient, type, out);
      }
    }
  });
}

const poputil::FloatKernelRegistration kPool("popnn::pool", PoolKernel);
const poputil::FloatKernelRegistration kGradient("popnn::poolInputGradient", GradientKernel);

// ---- parameters

// The range of inputs of a window, without padding.
std::pair<size_t, size_t> Window(const PoolParams& params, size_t dim, size_t output) {
  const int64_t size = static_cast<int64_t>(params.inputFieldShape[dim]);
  const int64_t lower = params.inputTruncationOrPaddingLower[dim];
  const int64_t upper = params.inputTruncationOrPaddingUpper[dim];
  const int64_t begin = static_cast<int64_t>(output * params.stride[dim]) - lower;
  const int64_t end = begin + static_cast<int64_t>(params.kernelShape[dim]);
  // Negative padding cuts elements.
  const int64_t first = std::max<int64_t>(0, -lower), last = size + std::min<int64_t>(0, upper);
  const int64_t from = std::max(begin, first), to = std::max(from, std::min(end, last));
  return {static_cast<size_t>(from), static_cast<size_t>(to)};
}

Attributes AttributesOf(const PoolParams& params) {
  Attributes attributes;
  attributes.Set("type", static_cast<int>(params.poolingType))
      .Set("field", params.inputFieldShape)
      .Set("output", params.getOutputFieldShape());
  for (size_t d = 0; d < params.getNumFieldDims(); ++d) {
    Shape begins, ends;
    for (size_t o = 0; o < params.getOutputFieldShape()[d]; ++o) {
      begins.push_back(Window(params, d, o).first);
      ends.push_back(Window(params, d, o).second);
    }
    attributes.Set("begin" + std::to_string(d), begins).Set("end" + std::to_string(d), ends);
  }
  return attributes;
}

Shape FullShape(const PoolParams& params, const Shape& field) {
  Shape shape = {params.batchSize, params.numChannels};
  shape.insert(shape.end(), field.begin(), field.end());
  return shape;
}

CallSite Checked(const char* function, Graph& graph, const PoolParams& params,
                 const DebugContext& debug, const OptionFlags& options) {
  poputil::CheckOptions(function, options,
                        {{"poolUseIntrospectiveMapping", {"true", "false"}},
                         {"optimizeForSmallNumChannels", {"true", "false"}}});
  CallSite site(function, graph, debug);
  site.CheckFloating("dType", params.dType);
  try {
    params.getOutputFieldShape();
  } catch (const poputil::poplibs_error& error) {
    site.Fail(error.what());
  }
  return site;
}

// Elements of all windows that are not padding.
uint64_t Elements(const PoolParams& params) {
  uint64_t elements = params.batchSize * params.numChannels;
  const Shape output = params.getOutputFieldShape();
  for (size_t d = 0; d < output.size(); ++d) {
    uint64_t sum = 0;
    for (size_t o = 0; o < output[d]; ++o) {
      const auto window = Window(params, d, o);
      sum += window.second - window.first;
    }
    elements *= sum;
  }
  return elements;
}

double PerfectCycles(const Graph& graph, const PoolParams& params, uint64_t flops) {
  const poplar::Target& target = graph.getTarget();
  return static_cast<double>(flops) / target.getVectorWidth(params.dType) / target.getNumTiles();
}

}  // namespace

PoolParams::PoolParams(PoolingType poolingType_, Shape inputFieldShape_, Shape kernelShape_,
                       std::vector<unsigned> stride_, std::vector<int> lower,
                       std::vector<int> upper, size_t numChannels_, size_t batchSize_,
                       poplar::Type dType_)
    : poolingType(poolingType_),
      inputFieldShape(std::move(inputFieldShape_)),
      kernelShape(std::move(kernelShape_)),
      stride(std::move(stride_)),
      inputTruncationOrPaddingLower(std::move(lower)),
      inputTruncationOrPaddingUpper(std::move(upper)),
      numChannels(numChannels_),
      batchSize(batchSize_),
      dType(dType_) {}

Shape PoolParams::getOutputFieldShape() const {
  const size_t dims = getNumFieldDims();
  const auto fail = [](const std::string& text) {
    throw poputil::poplibs_error("popnn::pooling::PoolParams: " + text);
  };
  if (kernelShape.size() != dims || stride.size() != dims ||
      inputTruncationOrPaddingLower.size() != dims ||
      inputTruncationOrPaddingUpper.size() != dims) {
    fail("kernelShape, stride and paddings have " + std::to_string(kernelShape.size()) + ", " +
         std::to_string(stride.size()) + ", " +
         std::to_string(inputTruncationOrPaddingLower.size()) + " and " +
         std::to_string(inputTruncationOrPaddingUpper.size()) + " values; expected " +
         std::to_string(dims) + ", one for each dimension of the field.");
  }
  Shape shape;
  for (size_t d = 0; d < dims; ++d) {
    const int64_t size = static_cast<int64_t>(inputFieldShape[d]) +
                         inputTruncationOrPaddingLower[d] + inputTruncationOrPaddingUpper[d];
    const int64_t kernel = static_cast<int64_t>(kernelShape[d]);
    if (stride[d] == 0) fail("stride is 0; expected 1 or more.");
    if (kernel > size) {
      fail("the window has " + std::to_string(kernel) + " elements in dimension " +
           std::to_string(d) + ", the padded field " + std::to_string(size) +
           "; expected a window that is no larger.");
    }
    shape.push_back(static_cast<size_t>((size - kernel) / stride[d] + 1));
  }
  return shape;
}

std::ostream& operator<<(std::ostream& os, const PoolParams& params) {
  return os << asString(params.poolingType) << " pooling of "
            << poputil::ShapeText(FullShape(params, params.inputFieldShape)) << " of "
            << params.dType << ", windows " << poputil::ShapeText(params.kernelShape);
}

const char* asString(const PoolingType& method) {
  return method == PoolingType::MAX ? "max" : method == PoolingType::AVG ? "avg" : "sum";
}

Shape getOutputFieldShape(const PoolParams& params) { return params.getOutputFieldShape(); }

uint64_t getFwdFlops(const PoolParams& params) {
  // AVG has one division of each result.
  const uint64_t results = KernelCall::Product(FullShape(params, params.getOutputFieldShape()));
  return Elements(params) + (params.poolingType == PoolingType::AVG ? results : 0);
}

uint64_t getBwdFlops(const PoolParams& params) { return getFwdFlops(params); }

double getFwdPerfectCycleCount(const Graph& graph, const PoolParams& params) {
  return PerfectCycles(graph, params, getFwdFlops(params));
}

double getBwdPerfectCycleCount(const Graph& graph, const PoolParams& params) {
  return PerfectCycles(graph, params, getBwdFlops(params));
}

Tensor pool(Graph& graph, const PoolParams& params, const Tensor& in, Sequence& prog,
            const DebugContext& debugContext, const OptionFlags& options) {
  const CallSite site = Checked("popnn::pooling::pool", graph, params, debugContext, options);
  site.CheckType("in", in, params.dType);
  site.CheckShape("in", in, FullShape(params, params.inputFieldShape));
  const Tensor out = site.NewTensor(params.dType, FullShape(params, params.getOutputFieldShape()));
  site.Add(prog, "popnn::pool", AttributesOf(params), {in}, {out});
  return out;
}

Tensor poolInputGradient(Graph& graph, const PoolParams& params, const Tensor& in,
                         const Tensor& pooled, const Tensor& pooledGradient, bool useScaledGradient,
                         Sequence& prog, const DebugContext& debugContext,
                         const OptionFlags& options) {
  const CallSite site =
      Checked("popnn::pooling::poolInputGradient", graph, params, debugContext, options);
  site.CheckShape("in", in, FullShape(params, params.inputFieldShape));
  site.CheckShape("pooled", pooled, FullShape(params, params.getOutputFieldShape()));
  site.CheckShape("pooledGradient", pooledGradient, pooled.shape());
  const Tensor out = site.NewLike(params.dType, in, "gradient");
  site.Add(prog, "popnn::poolInputGradient", AttributesOf(params).Set("scaled", useScaledGradient),
           {pooledGradient, in, pooled}, {out});
  return out;
}

Tensor poolInputGradient(Graph& graph, const PoolParams& params, unsigned,
                         const Tensor& pooledGradient, Sequence& prog,
                         const DebugContext& debugContext, const OptionFlags& options) {
  const CallSite site =
      Checked("popnn::pooling::poolInputGradient", graph, params, debugContext, options);
  if (params.poolingType == PoolingType::MAX) {
    site.Fail("max pooling needs input and result for its gradient. Give them.");
  }
  site.CheckShape("pooledGradient", pooledGradient,
                  FullShape(params, params.getOutputFieldShape()));
  const Tensor out =
      site.NewTensor(params.dType, FullShape(params, params.inputFieldShape), "gradient");
  site.Add(prog, "popnn::poolInputGradient", AttributesOf(params).Set("scaled", false),
           {pooledGradient}, {out});
  return out;
}

}  // namespace pooling
}  // namespace popnn
