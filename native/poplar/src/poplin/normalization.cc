#include "poplin/normalization.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "poputil/float_kernel.h"

namespace poplin {

using poplar::Tensor;
using poplar::core::KernelAliasing;
using poputil::Attributes;
using poputil::KernelCall;

namespace {

// ---- kernels of activations {batch, channels, elements}

struct Layout {
  Layout(const KernelCall& call, const std::vector<size_t>& shape)
      : batch(shape[0]),
        channels(shape[1]),
        elements(shape[2]),
        groups(call.attributes.Size("groups")),
        strided(call.attributes.Bool("strided")) {}

  size_t statistics() const { return groups == 0 ? channels : batch * groups; }
  size_t StatisticOf(size_t image, size_t channel) const {
    if (groups == 0) return channel;
    return image * groups + (strided ? channel % groups : channel / (channels / groups));
  }

  // Calls `use(image, channel, offset)` for the fields that share a statistic.
  template <typename Use>
  void ForFields(size_t statistic, const Use& use) const {
    if (groups == 0) {
      for (size_t image = 0; image < batch; ++image) Field(image, statistic, use);
      return;
    }
    const size_t image = statistic / groups, group = statistic % groups, size = channels / groups;
    for (size_t i = 0; i < size; ++i) {
      Field(image, strided ? i * groups + group : group * size + i, use);
    }
  }

  const size_t batch, channels, elements, groups;
  const bool strided;

 private:
  template <typename Use>
  void Field(size_t image, size_t channel, const Use& use) const {
    use(channel, (image * channels + channel) * elements);
  }
};

// Calls `work(statistic)` on all cores.
template <typename Work>
void ForStatistics(const Layout& layout, const Work& work) {
  poplar::core::parallelFor(layout.statistics(), 1, [&](size_t begin, size_t end) {
    for (size_t s = begin; s < end; ++s) work(s);
  });
}

// Calls `work(image, channel, offset)` for all fields on all cores.
template <typename Work>
void ForAllFields(const Layout& layout, const Work& work) {
  const size_t grain = (1 << 12) / (layout.elements + 1) + 1;
  poplar::core::parallelFor(layout.batch * layout.channels, grain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      work(i / layout.channels, i % layout.channels, i * layout.elements);
    }
  });
}

double InverseDeviation(double variance, size_t count, const Attributes& attributes) {
  if (attributes.Bool("unbiased") && count > 1) {
    variance *= static_cast<double>(count) / static_cast<double>(count - 1);
  }
  return 1 / std::sqrt(variance + attributes.Double("eps"));
}

// Outputs: mean and inverse deviation. Sums the squares of differences to the mean.
void StatisticsKernel(const KernelCall& call) {
  const Layout layout(call, call.InShape(0));
  const float* x = call.in(0);
  ForStatistics(layout, [&](size_t s) {
    double sum = 0, squares = 0;
    size_t count = 0;
    layout.ForFields(s, [&](size_t, size_t at) {
      for (size_t i = 0; i < layout.elements; ++i) sum += x[at + i];
      count += layout.elements;
    });
    const double mean = sum / static_cast<double>(count);
    layout.ForFields(s, [&](size_t, size_t at) {
      for (size_t i = 0; i < layout.elements; ++i) {
        const double difference = x[at + i] - mean;
        squares += difference * difference;
      }
    });
    call.out(0)[s] = static_cast<float>(mean);
    call.out(1)[s] = static_cast<float>(
        InverseDeviation(squares / static_cast<double>(count), count, call.attributes));
  });
}

// sums {2, statistics}: of the first input, and of its products with the second.
void SumsKernel(const KernelCall& call) {
  const Layout layout(call, call.InShape(0));
  const float *x = call.in(0), *y = call.in(1);
  ForStatistics(layout, [&](size_t s) {
    double sum = 0, products = 0;
    layout.ForFields(s, [&](size_t, size_t at) {
      for (size_t i = 0; i < layout.elements; ++i) {
        sum += x[at + i];
        products += static_cast<double>(x[at + i]) * y[at + i];
      }
    });
    call.out(0)[s] = static_cast<float>(sum);
    call.out(0)[layout.statistics() + s] = static_cast<float>(products);
  });
}

// Mean and inverse deviation of sums.
void StatisticsOfSumsKernel(const KernelCall& call) {
  const size_t count = call.attributes.Size("count"), statistics = call.OutSize(0);
  for (size_t s = 0; s < statistics; ++s) {
    const double mean = call.in(0)[s] / static_cast<double>(count);
    const double squares = call.in(0)[statistics + s] / static_cast<double>(count);
    call.out(0)[s] = static_cast<float>(mean);
    call.out(1)[s] = static_cast<float>(
        InverseDeviation(std::max(0.0, squares - mean * mean), count, call.attributes));
  }
}

void WhitenKernel(const KernelCall& call) {
  const Layout layout(call, call.InShape(0));
  ForAllFields(layout, [&](size_t image, size_t channel, size_t at) {
    const size_t s = layout.StatisticOf(image, channel);
    const float mean = call.in(1)[s], inverse = call.in(2)[s];
    for (size_t i = at; i < at + layout.elements; ++i) {
      call.out(0)[i] = (call.in(0)[i] - mean) * inverse;
    }
  });
}

// Inputs: x, scale, and offset if there is one.
void ScaleKernel(const KernelCall& call) {
  const Layout layout(call, call.InShape(0));
  ForAllFields(layout, [&](size_t, size_t channel, size_t at) {
    const float scale = call.in(1)[channel];
    const float offset = call.inputs.size() > 2 ? call.in(2)[channel] : 0.0f;
    for (size_t i = at; i < at + layout.elements; ++i) {
      call.out(0)[i] = call.in(0)[i] * scale + offset;
    }
  });
}

// Inputs: whitened activations, their gradients, inverse deviation and sums of gradients.
void GradientsKernel(const KernelCall& call) {
  const Layout layout(call, call.InShape(0));
  const float count = call.attributes.Float("count");
  ForAllFields(layout, [&](size_t image, size_t channel, size_t at) {
    const size_t s = layout.StatisticOf(image, channel);
    const float inverse = call.in(2)[s];
    const float mean = call.in(3)[s] / count;
    const float slope = call.in(3)[layout.statistics() + s] / count;
    for (size_t i = at; i < at + layout.elements; ++i) {
      call.out(0)[i] = inverse * (call.in(1)[i] - mean - call.in(0)[i] * slope);
    }
  });
}

void AddScaledKernel(const KernelCall& call) {
  float factor = call.attributes.Float("factor");
  if (call.inputs.size() > 1) factor *= call.in(1)[0];
  for (size_t i = 0; i < call.OutSize(0); ++i) call.out(0)[i] += factor * call.in(0)[i];
}

const poputil::FloatKernelRegistration kStatistics("poplin::normStatistics", StatisticsKernel);
const poputil::FloatKernelRegistration kSums("poplin::normSums", SumsKernel);
const poputil::FloatKernelRegistration kOfSums("poplin::normStatisticsOfSums",
                                               StatisticsOfSumsKernel);
const poputil::FloatKernelRegistration kWhiten("poplin::normWhiten", WhitenKernel);
const poputil::FloatKernelRegistration kScale("poplin::normScale", ScaleKernel);
const poputil::FloatKernelRegistration kGradients("poplin::normGradients", GradientsKernel);
const poputil::FloatKernelRegistration kAddScaled("poplin::normParamUpdate", AddScaledKernel);

Attributes Estimate(float eps, bool unbiased, Attributes attributes) {
  attributes.Set("eps", eps).Set("unbiased", unbiased);
  return attributes;
}

}  // namespace

// {batch, channels, elements}
Tensor Normalization::Checked(const char* name, const Tensor& acts) const {
  site_.CheckFloating(name, acts);
  if (acts.rank() < 2 || acts.numElements() == 0) {
    site_.Fail(std::string(name) + " has shape " + acts.shapeToString() +
               "; expected {batch, channels, field...} with elements.");
  }
  if (groups_.groups != 0 && acts.dim(1) % groups_.groups != 0) {
    site_.Fail(std::string(name) + " has " + std::to_string(acts.dim(1)) +
               " channels; expected a multiple of the " + std::to_string(groups_.groups) +
               " groups.");
  }
  const size_t fields = acts.dim(0) * acts.dim(1);
  return acts.reshape({acts.dim(0), acts.dim(1), acts.numElements() / fields});
}

Attributes Normalization::GroupAttributes() const {
  Attributes attributes;
  attributes.Set("groups", groups_.groups).Set("strided", groups_.strided);
  return attributes;
}

size_t Normalization::NumStatistics(const Tensor& acts) const {
  return groups_.groups == 0 ? acts.dim(1) : acts.dim(0) * groups_.groups;
}

// Elements of one statistic.
size_t Normalization::ElementsOf(const Tensor& acts) const {
  return acts.numElements() / NumStatistics(acts);
}

Statistics Normalization::StatisticsOf(const Tensor& acts, float eps, bool unbiased) const {
  const Tensor flat = Checked("acts", acts);
  const Statistics result{site_.NewTensor(acts.elementType(), {NumStatistics(acts)}, "mean"),
                          site_.NewTensor(acts.elementType(), {NumStatistics(acts)}, "iStdDev")};
  site_.Add(prog_, "poplin::normStatistics", Estimate(eps, unbiased, GroupAttributes()), {flat},
            {result.mean, result.inverse_deviation});
  return result;
}

Tensor Normalization::Reduced(const Tensor& sums, const Tensor& acts,
                              const DistributedNormReduceCallback& reduce,
                              unsigned norm_size) const {
  if (!reduce) return sums;
  if (norm_size % acts.dim(0) != 0) {
    site_.Fail("the batch of all replicas is " + std::to_string(norm_size) +
               "; expected a multiple of the " + std::to_string(acts.dim(0)) + " images of each.");
  }
  const unsigned replicas = norm_size / static_cast<unsigned>(acts.dim(0));
  return reduce(site_.graph(), {sums}, prog_, replicas, site_.debug(), {}).at(0);
}

Statistics Normalization::DistributedStatistics(const Tensor& acts, float eps, bool unbiased,
                                                const DistributedNormReduceCallback& reduce,
                                                unsigned norm_size) const {
  const Tensor flat = Checked("acts", acts);
  const Tensor sums = site_.NewTensor(poplar::FLOAT, {2, NumStatistics(acts)}, "sums");
  site_.Add(prog_, "poplin::normSums", GroupAttributes(), {flat, flat}, {sums});
  const Tensor reduced = Reduced(sums, acts, reduce, norm_size);
  const Statistics result{site_.NewTensor(acts.elementType(), {NumStatistics(acts)}, "mean"),
                          site_.NewTensor(acts.elementType(), {NumStatistics(acts)}, "iStdDev")};
  Attributes attributes = Estimate(eps, unbiased, GroupAttributes());
  attributes.Set("count", ElementsOf(acts) / acts.dim(0) * norm_size);
  site_.Add(prog_, "poplin::normStatisticsOfSums", attributes, {reduced},
            {result.mean, result.inverse_deviation});
  return result;
}

Tensor Normalization::Whiten(const Tensor& acts, const Statistics& statistics) const {
  const Tensor flat = Checked("acts", acts);
  site_.CheckShape("mean", statistics.mean, {NumStatistics(acts)});
  site_.CheckShape("iStdDev", statistics.inverse_deviation, {NumStatistics(acts)});
  const Tensor out = site_.NewLike(acts.elementType(), acts, "whitened");
  site_.Add(prog_, "poplin::normWhiten", GroupAttributes(),
            {flat, statistics.mean, statistics.inverse_deviation}, {out.reshape(flat.shape())});
  return out;
}

Tensor Normalization::Scale(const Tensor& x, const Tensor& scale, const Tensor& offset) const {
  const Tensor flat = Checked("acts", x);
  std::vector<Tensor> inputs = {flat, scale};
  site_.CheckShape("gamma", scale, {x.dim(1)});
  if (offset.valid()) {
    site_.CheckShape("beta", offset, {x.dim(1)});
    inputs.push_back(offset);
  }
  const Tensor out = site_.NewLike(x.elementType(), x);
  site_.Add(prog_, "poplin::normScale", GroupAttributes(), inputs, {out.reshape(flat.shape())});
  return out;
}

std::pair<Tensor, Tensor> Normalization::ParamGradients(const Tensor& whitened,
                                                        const Tensor& gradients) const {
  const Tensor flat = Checked("actsWhitened", whitened);
  site_.CheckShape("gradsIn", gradients, whitened.shape());
  // Of gradients by channel, and of their products with activations, whatever the groups.
  const Tensor sums = site_.NewTensor(whitened.elementType(), {2, whitened.dim(1)}, "deltas");
  site_.Add(prog_, "poplin::normSums", Attributes().Set("groups", 0).Set("strided", true),
            {gradients.reshape(flat.shape()), flat}, {sums});
  return {sums[1], sums[0]};
}

Tensor Normalization::Gradients(const Tensor& whitened, const Tensor& gradients,
                                const Tensor& inverse_deviation,
                                const DistributedNormReduceCallback& reduce,
                                unsigned norm_size) const {
  const Tensor flat = Checked("actsWhitened", whitened);
  site_.CheckShape("gradsIn", gradients, whitened.shape());
  site_.CheckShape("invStdDev", inverse_deviation, {NumStatistics(whitened)});
  const Tensor flat_gradients = gradients.reshape(flat.shape());
  const Tensor sums = site_.NewTensor(poplar::FLOAT, {2, NumStatistics(whitened)}, "sums");
  site_.Add(prog_, "poplin::normSums", GroupAttributes(), {flat_gradients, flat}, {sums});
  const Tensor reduced = Reduced(sums, whitened, reduce, norm_size);
  size_t count = ElementsOf(whitened);
  if (reduce) count = count / whitened.dim(0) * norm_size;
  const Tensor out = site_.NewLike(whitened.elementType(), whitened, "gradient");
  site_.Add(prog_, "poplin::normGradients", GroupAttributes().Set("count", count),
            {flat, flat_gradients, inverse_deviation, reduced}, {out.reshape(flat.shape())});
  return out;
}

void AddScaled(const poputil::CallSite& site, const Tensor& target, const Tensor& delta,
               float factor, const Tensor& scale, poplar::program::Sequence& prog) {
  site.CheckShape("the delta", delta, target.shape());
  std::vector<Tensor> inputs = {delta};
  if (scale.valid()) inputs.push_back(scale.flatten());
  site.Add(prog, "poplin::normParamUpdate", Attributes().Set("factor", factor), inputs, {target});
}

}  // namespace poplin
