#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "popnn/CTCInference.hpp"
#include "popnn/CTCLoss.hpp"
#include "popnn/ctc_alignment.h"
#include "popnn/ctc_beam_search.h"
#include "poputil/call_site.h"
#include "poputil/exceptions.hpp"
#include "poputil/float_kernel.h"

namespace popnn {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::core::parallelFor;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using poputil::KernelCall;
using tensorflow_ipu::CtcAlignment;
using tensorflow_ipu::CtcBeamSearch;
using tensorflow_ipu::LogProbs;

namespace {

// ---- kernels

int64_t Integer(const KernelCall& call, size_t input, size_t place) {
  const Type& type = call.spec.inputs[input].type;
  if (type == poplar::UNSIGNED_SHORT) return call.InAs<uint16_t>(input)[place];
  if (type == poplar::INT) return call.InAs<int32_t>(input)[place];
  return call.InAs<uint32_t>(input)[place];
}

// A number of steps or labels, which has to be at most `limit`.
int64_t Length(const KernelCall& call, size_t input, size_t place, size_t limit, const char* name) {
  const int64_t length = Integer(call, input, place);
  if (length >= 0 && length <= static_cast<int64_t>(limit)) return length;
  throw poputil::poplibs_error(std::string(name) + " of sequence " + std::to_string(place) +
                               " is " + std::to_string(length) + "; expected 0 to " +
                               std::to_string(limit) + ".");
}

// Log probabilities {time, batch, classes}, with a log softmax applied to logits.
class Probabilities {
 public:
  explicit Probabilities(const KernelCall& call)
      : batch_(call.InShape(0)[1]), classes_(call.InShape(0)[2]), values_(call.in(0)) {
    if (!call.attributes.Bool("logits")) return;
    made_.assign(values_, values_ + call.InSize(0));
    values_ = made_.data();
    for (size_t at = 0; at < made_.size(); at += classes_) {
      float* row = made_.data() + at;
      const float greatest = *std::max_element(row, row + classes_);
      double sum = 0;
      for (size_t c = 0; c < classes_; ++c) sum += std::exp(row[c] - greatest);
      const float offset = greatest + static_cast<float>(std::log(sum));
      for (size_t c = 0; c < classes_; ++c) row[c] -= offset;
    }
  }

  LogProbs Of(size_t sequence, int64_t steps) const {
    return {values_ + sequence * classes_, static_cast<int64_t>(batch_ * classes_), steps,
            static_cast<int64_t>(classes_)};
  }

 private:
  const size_t batch_, classes_;
  const float* values_;
  std::vector<float> made_;
};

std::vector<int32_t> LabelsOf(const KernelCall& call, size_t sequence, int64_t count, int blank) {
  const size_t longest = call.InShape(1)[1], classes = call.InShape(0)[2];
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = Integer(call, 1, sequence * longest + static_cast<size_t>(i));
    if (label < 0 || label >= static_cast<int64_t>(classes) || label == blank) {
      throw poputil::poplibs_error("label " + std::to_string(i) + " of sequence " +
                                   std::to_string(sequence) + " is " + std::to_string(label) +
                                   "; expected a class from 0 to " + std::to_string(classes - 1) +
                                   " that is not the blank.");
    }
    labels.push_back(static_cast<int32_t>(label));
  }
  return labels;
}

// Inputs: data, labels, lengths of data and of labels. Outputs: losses, gradients.
void Loss(const KernelCall& call) {
  const Probabilities probabilities(call);
  const std::vector<size_t>& shape = call.InShape(0);
  const int blank = static_cast<int>(call.attributes.Int("blank"));
  std::fill(call.out(1), call.out(1) + call.OutSize(1), 0.0f);
  parallelFor(shape[1], 1, [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) {
      const int64_t steps = Length(call, 2, b, shape[0], "the data length");
      const int64_t count = Length(call, 3, b, call.InShape(1)[1], "the label length");
      const std::vector<int32_t> labels = LabelsOf(call, b, count, blank);
      const CtcAlignment alignment(labels.data(), count, blank);
      call.out(0)[b] = static_cast<float>(
          alignment.Loss(probabilities.Of(b, steps), call.out(1) + b * shape[2]));
    }
  });
}

// Inputs: data, lengths. Outputs: log probabilities, lengths, labels.
void BeamSearch(const KernelCall& call) {
  const Probabilities probabilities(call);
  const std::vector<size_t>& shape = call.InShape(0);
  const size_t paths = call.OutShape(0)[1], steps = shape[0];
  const int blank = static_cast<int>(call.attributes.Int("blank"));
  const int width = static_cast<int>(call.attributes.Int("width"));
  uint32_t *lengths = call.OutAs<uint32_t>(1), *labels = call.OutAs<uint32_t>(2);
  std::fill(call.out(0), call.out(0) + call.OutSize(0),
            static_cast<float>(tensorflow_ipu::kImpossible));
  std::fill(lengths, lengths + call.OutSize(1), 0u);
  std::fill(labels, labels + call.OutSize(2), static_cast<uint32_t>(blank));
  parallelFor(shape[1], 1, [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) {
      CtcBeamSearch search(static_cast<int>(shape[2]), width, blank);
      search.Run(probabilities.Of(b, Length(call, 1, b, steps, "the data length")));
      for (size_t p = 0; p < std::min(paths, search.beams().size()); ++p) {
        const std::vector<int> found = search.Labels(search.beams()[p]);
        const size_t place = b * paths + p;
        call.out(0)[place] = static_cast<float>(search.beams()[p].total());
        lengths[place] = static_cast<uint32_t>(found.size());
        std::copy(found.begin(), found.end(), labels + place * steps);
      }
    }
  });
}

const poputil::FloatKernelRegistration kLoss("popnn::ctc::loss", Loss);
const poputil::FloatKernelRegistration kBeamSearch("popnn::ctc_infer::beamSearch", BeamSearch);

// ---- calls

void CheckCtcOptions(const char* function, const OptionFlags& options) {
  poputil::CheckOptions(function, options,
                        {{"availableMemoryProportion", {}}, {"partialsType", {"half", "float"}}});
}

void CheckInteger(const CallSite& site, const char* name, const Type& type) {
  if (type == poplar::UNSIGNED_SHORT || type == poplar::UNSIGNED_INT || type == poplar::INT) return;
  site.Fail(std::string(name) + " are of " + type.toString().cloneAsString() +
            "; expected unsigned short, unsigned int or int.");
}

void CheckData(const CallSite& site, const Tensor& data, const Tensor& lengths, unsigned blank) {
  site.CheckFloating("the data", data);
  site.CheckRank("the data", data, 3);
  CheckInteger(site, "dataLengths", lengths.elementType());
  site.CheckShape("dataLengths", lengths, {data.dim(1)});
  if (blank >= data.dim(2)) {
    site.Fail("blankClass is " + std::to_string(blank) + "; expected one of the " +
              std::to_string(data.dim(2)) + " classes.");
  }
}

std::pair<Tensor, Tensor> LossAndGradient(const char* function, Graph& graph, const Type& type,
                                          bool logits, const Tensor& data, const Tensor& labels,
                                          const Tensor& dataLengths, const Tensor& labelLengths,
                                          Sequence& prog, unsigned blank, const DebugContext& debug,
                                          const OptionFlags& options) {
  CheckCtcOptions(function, options);
  const CallSite site(function, graph, debug);
  CheckData(site, data, dataLengths, blank);
  site.CheckFloating("outType", type);
  site.CheckRank("labels", labels, 2);
  CheckInteger(site, "labels", labels.elementType());
  CheckInteger(site, "labelLengths", labelLengths.elementType());
  site.CheckShape("labels", labels, {data.dim(1), labels.dim(1)});
  site.CheckShape("labelLengths", labelLengths, {data.dim(1)});
  const Tensor loss = site.NewTensor(type, {data.dim(1)}, "loss");
  const Tensor gradient = site.NewLike(type, data, "gradient");
  site.Add(prog, "popnn::ctc::loss", Attributes().Set("logits", logits).Set("blank", blank),
           {data, labels, dataLengths, labelLengths}, {loss, gradient});
  return {loss, gradient};
}

std::tuple<Tensor, Tensor, Tensor> Search(const char* function, Graph& graph, bool logits,
                                          const Tensor& data, const Tensor& lengths, Sequence& prog,
                                          unsigned blank, unsigned width, unsigned paths,
                                          const DebugContext& debug, const OptionFlags& options) {
  CheckCtcOptions(function, options);
  const CallSite site(function, graph, debug);
  CheckData(site, data, lengths, blank);
  if (paths == 0 || paths > width) {
    site.Fail("topPaths is " + std::to_string(paths) + "; expected 1 to the beamwidth " +
              std::to_string(width) + ".");
  }
  const std::vector<size_t> shape = {data.dim(1), paths};
  const Tensor scores = site.NewTensor(data.elementType(), shape, "logProbabilities");
  const Tensor counts = site.NewTensor(poplar::UNSIGNED_INT, shape, "lengths");
  const Tensor labels =
      site.NewTensor(poplar::UNSIGNED_INT, {data.dim(1), paths, data.dim(0)}, "labels");
  site.Add(prog, "popnn::ctc_infer::beamSearch",
           Attributes().Set("logits", logits).Set("blank", blank).Set("width", width),
           {data, lengths}, {scores, counts, labels});
  return std::make_tuple(scores, counts, labels);
}

auto Key(const ctc::Plan& plan) {
  return std::make_tuple(plan.inType.toString().cloneAsString(),
                         plan.outType.toString().cloneAsString(), plan.batchSize, plan.maxTime,
                         plan.maxLabelLength, plan.numClasses, plan.beamwidth);
}

}  // namespace

namespace ctc {

bool operator<(const Plan& a, const Plan& b) noexcept { return Key(a) < Key(b); }
bool operator==(const Plan& a, const Plan& b) noexcept { return Key(a) == Key(b); }

std::ostream& operator<<(std::ostream& stream, const Plan& plan) {
  return stream << "CTC plan: batch " << plan.batchSize << ", time " << plan.maxTime << ", labels "
                << plan.maxLabelLength << ", classes " << plan.numClasses << ", beam width "
                << plan.beamwidth;
}

Plan plan(const Graph&, const Type& inType, const Type& outType, unsigned batchSize,
          unsigned maxTime, unsigned maxLabelLength, unsigned numClasses,
          const OptionFlags& options) {
  CheckCtcOptions("popnn::ctc::plan", options);
  Plan result;
  result.inType = inType;
  result.outType = outType;
  result.batchSize = batchSize;
  result.maxTime = maxTime;
  result.maxLabelLength = maxLabelLength;
  result.numClasses = numClasses;
  return result;
}

Tensor createDataInput(Graph& graph, const Type& type, const size_t batchSize, const size_t maxTime,
                       const size_t numClasses, const Plan&, const DebugContext& debugContext) {
  return CallSite("popnn::ctc::createDataInput", graph, debugContext)
      .NewTensor(type, {maxTime, batchSize, numClasses}, "data");
}

Tensor createLabelsInput(Graph& graph, const Type& type, const size_t batchSize,
                         const size_t maxLabelLength, const Plan&,
                         const DebugContext& debugContext) {
  const CallSite site("popnn::ctc::createLabelsInput", graph, debugContext);
  CheckInteger(site, "labels", type);
  return site.NewTensor(type, {batchSize, maxLabelLength}, "labels");
}

std::pair<Tensor, Tensor> calcLossAndGradientLogProbabilities(
    Graph& graph, const Type& outType, const Tensor& logProbs, const Tensor& labels,
    const Tensor& dataLengths, const Tensor& labelLengths, Sequence& prog,
    const unsigned blankClass, const Plan&, const DebugContext& debugContext,
    const OptionFlags& options) {
  return LossAndGradient("popnn::ctc::calcLossAndGradientLogProbabilities", graph, outType, false,
                         logProbs, labels, dataLengths, labelLengths, prog, blankClass,
                         debugContext, options);
}

std::pair<Tensor, Tensor> calcLossAndGradientLogits(Graph& graph, const Type& outType,
                                                    const Tensor& logits, const Tensor& labels,
                                                    const Tensor& dataLengths,
                                                    const Tensor& labelLengths, Sequence& prog,
                                                    const unsigned blankClass, const Plan&,
                                                    const DebugContext& debugContext,
                                                    const OptionFlags& options) {
  return LossAndGradient("popnn::ctc::calcLossAndGradientLogits", graph, outType, true, logits,
                         labels, dataLengths, labelLengths, prog, blankClass, debugContext,
                         options);
}

Tensor calcCTCLossLogProbabilities(Graph& graph, const Type& outType, const Tensor& logProbs,
                                   const Tensor& labels, const Tensor& dataLengths,
                                   const Tensor& labelLengths, Sequence& prog,
                                   const unsigned blankClass, const Plan&,
                                   const DebugContext& debugContext, const OptionFlags& options) {
  return LossAndGradient("popnn::ctc::calcCTCLossLogProbabilities", graph, outType, false, logProbs,
                         labels, dataLengths, labelLengths, prog, blankClass, debugContext, options)
      .first;
}

Tensor calcCTCLossLogits(Graph& graph, const Type& outType, const Tensor& logits,
                         const Tensor& labels, const Tensor& dataLengths,
                         const Tensor& labelLengths, Sequence& prog, const unsigned blankClass,
                         const Plan&, const DebugContext& debugContext,
                         const OptionFlags& options) {
  return LossAndGradient("popnn::ctc::calcCTCLossLogits", graph, outType, true, logits, labels,
                         dataLengths, labelLengths, prog, blankClass, debugContext, options)
      .first;
}

}  // namespace ctc

namespace ctc_infer {

ctc::Plan plan(const Graph&, const Type& inType, unsigned batchSize, unsigned maxTime,
               unsigned numClasses, unsigned beamwidth, const OptionFlags& options) {
  CheckCtcOptions("popnn::ctc_infer::plan", options);
  ctc::Plan result;
  result.inType = result.outType = inType;
  result.batchSize = batchSize;
  result.maxTime = maxTime;
  result.numClasses = numClasses;
  result.beamwidth = beamwidth;
  return result;
}

Tensor createDataInput(Graph& graph, const Type& type, const size_t batchSize, const size_t maxTime,
                       const size_t numClasses, const ctc::Plan&,
                       const DebugContext& debugContext) {
  return CallSite("popnn::ctc_infer::createDataInput", graph, debugContext)
      .NewTensor(type, {maxTime, batchSize, numClasses}, "data");
}

std::tuple<Tensor, Tensor, Tensor> beamSearchDecoderLogProbabilities(
    Graph& graph, const Tensor& logProbs, const Tensor& dataLengths, Sequence& prog,
    unsigned blankClass, unsigned beamwidth, unsigned topPaths, const ctc::Plan&,
    const DebugContext& debugContext, const OptionFlags& options) {
  return Search("popnn::ctc_infer::beamSearchDecoderLogProbabilities", graph, false, logProbs,
                dataLengths, prog, blankClass, beamwidth, topPaths, debugContext, options);
}

std::tuple<Tensor, Tensor, Tensor> beamSearchDecoderLogits(
    Graph& graph, const Tensor& logits, const Tensor& dataLengths, Sequence& prog,
    unsigned blankClass, unsigned beamwidth, unsigned topPaths, const ctc::Plan&,
    const DebugContext& debugContext, const OptionFlags& options) {
  return Search("popnn::ctc_infer::beamSearchDecoderLogits", graph, true, logits, dataLengths, prog,
                blankClass, beamwidth, topPaths, debugContext, options);
}

}  // namespace ctc_infer
}  // namespace popnn
