// Kernels of random numbers. If a call has a seed, it is the last input; else the last output is
// the state of the graph's generator: seed {2} and the number of calls.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "poprand/philox.h"
#include "poputil/float_kernel.h"

namespace poprand {
namespace {

using poputil::KernelCall;

constexpr size_t kGrain = 1 << 12;  // blocks of a part for one core

Philox GeneratorOf(const KernelCall& call) {
  const uint64_t modifier = static_cast<uint64_t>(call.attributes.Int("modifier"));
  if (call.attributes.Bool("seeded")) {
    const uint32_t* seed = call.InAs<uint32_t>(call.inputs.size() - 1);
    return Philox(seed[0], seed[1], modifier << 32);
  }
  uint32_t* state = call.OutAs<uint32_t>(call.outputs.size() - 1);
  return Philox(state[0], state[1], modifier << 32 | ++state[2]);
}

// In [0, 1), with 24 bits.
float Unit(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
// In (0, 1).
double OpenUnit(uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; }

// Calls `set(element, words, w)` for all elements, each with its own word of a block.
template <typename Set>
void ForEach(const Philox& generator, size_t count, const Set& set) {
  poplar::core::parallelFor((count + 3) / 4, kGrain, [&](size_t begin, size_t end) {
    for (size_t block = begin; block < end; ++block) {
      const Philox::Words words = generator.Block(block);
      const size_t size = std::min<size_t>(4, count - 4 * block);
      for (size_t w = 0; w < size; ++w) set(4 * block + w, words, w);
    }
  });
}

// Fills the first output with the numbers that `value(words, w)` returns.
template <typename Value>
void Fill(const KernelCall& call, const Value& value) {
  const Philox generator = GeneratorOf(call);
  if (call.spec.outputs[0].type == poplar::INT) {
    int32_t* out = call.OutAs<int32_t>(0);
    ForEach(generator, call.OutSize(0), [&](size_t i, const Philox::Words& words, size_t w) {
      out[i] = static_cast<int32_t>(value(words, w));
    });
    return;
  }
  float* out = call.out(0);
  ForEach(generator, call.OutSize(0), [&](size_t i, const Philox::Words& words, size_t w) {
    out[i] = static_cast<float>(value(words, w));
  });
}

void Uniform(const KernelCall& call) {
  const double low = call.attributes.Double("min"), high = call.attributes.Double("max");
  if (call.spec.outputs[0].type == poplar::INT) {
    const double count = high - low + 1;
    return Fill(call, [=](const Philox::Words& words, size_t w) {
      return low + std::floor(count * (words[w] * 0x1p-32));
    });
  }
  const float first = static_cast<float>(low), range = static_cast<float>(high - low);
  Fill(call, [=](const Philox::Words& words, size_t w) { return first + range * Unit(words[w]); });
}

void Bernoulli(const KernelCall& call) {
  const double probability = call.attributes.Double("probability");
  Fill(call, [=](const Philox::Words& words, size_t w) {
    return words[w] * 0x1p-32 < probability ? 1.0f : 0.0f;
  });
}

// Two words make two normal numbers (Box and Muller).
void Normal(const KernelCall& call) {
  const float mean = call.attributes.Float("mean"), deviation = call.attributes.Float("deviation");
  Fill(call, [=](const Philox::Words& words, size_t w) {
    const size_t pair = w & ~size_t{1};
    const float radius = std::sqrt(-2 * std::log(static_cast<float>(OpenUnit(words[pair]))));
    const float angle = 6.28318530718f * Unit(words[pair + 1]);
    return mean + deviation * radius * (w == pair ? std::cos(angle) : std::sin(angle));
  });
}

// The inverse of erf: an approximation (Winitzki), and two steps of Newton.
double InverseErf(double x) {
  const double a = 0.147, log = std::log1p(-x * x);
  const double middle = 2 / (M_PI * a) + log / 2;
  double y = std::copysign(std::sqrt(std::sqrt(middle * middle - log / a) - middle), x);
  for (int i = 0; i < 2; ++i) y -= (std::erf(y) - x) / (M_2_SQRTPI * std::exp(-y * y));
  return y;
}

void TruncatedNormal(const KernelCall& call) {
  const double mean = call.attributes.Double("mean");
  const double deviation = call.attributes.Double("deviation");
  const double alpha = call.attributes.Double("alpha"), most = std::erf(alpha * M_SQRT1_2);
  Fill(call, [=](const Philox::Words& words, size_t w) {
    const double normal = M_SQRT2 * InverseErf(most * (2 * OpenUnit(words[w]) - 1));
    return mean + deviation * std::max(-alpha, std::min(alpha, normal));
  });
}

void LogUniform(const KernelCall& call) {
  const double low = call.attributes.Double("min"), high = call.attributes.Double("max");
  const double base = std::log(call.attributes.Double("base"));
  const double first = std::log(low) / base, range = std::log(high) / base - first;
  Fill(call, [=](const Philox::Words& words, size_t w) {
    const double value = std::exp(base * (first + range * (words[w] * 0x1p-32)));
    return std::max(low, std::min(high, value));
  });
}

// Places in a mask that is broadcast to another shape.
class BroadcastMask {
 public:
  BroadcastMask(const std::vector<size_t>& shape, const std::vector<size_t>& mask)
      : shape_(shape), strides_(shape.size(), 0) {
    size_t stride = 1;
    for (size_t d = mask.size(); d-- > 0;) {
      if (mask[d] != 1) strides_[d + shape.size() - mask.size()] = stride;
      stride *= mask[d];
    }
  }

  size_t operator[](size_t element) const {
    size_t place = 0;
    for (size_t d = shape_.size(); d-- > 0; element /= shape_[d]) {
      place += element % shape_[d] * strides_[d];
    }
    return place;
  }

 private:
  const std::vector<size_t> shape_;
  std::vector<size_t> strides_;
};

void Dropout(const KernelCall& call) {
  const Philox generator = GeneratorOf(call);
  const float scale = call.attributes.Float("scale");
  const double keep = call.attributes.Double("keep");
  const std::vector<size_t> mask = call.attributes.Sizes("mask");
  const float* in = call.in(0);
  float* out = call.out(0);
  if (mask == call.InShape(0)) {
    ForEach(generator, call.OutSize(0), [&](size_t i, const Philox::Words& words, size_t w) {
      out[i] = words[w] * 0x1p-32 < keep ? in[i] * scale : 0.0f;
    });
    return;
  }
  const BroadcastMask places(call.InShape(0), mask);
  std::vector<float> kept(KernelCall::Product(mask));
  ForEach(generator, kept.size(), [&](size_t i, const Philox::Words& words, size_t w) {
    kept[i] = words[w] * 0x1p-32 < keep ? scale : 0.0f;
  });
  poplar::core::parallelFor(call.OutSize(0), kGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) out[i] = in[i] * kept[places[i]];
  });
}

void SetSeed(const KernelCall& call) {
  const uint32_t* seed = call.InAs<uint32_t>(0);
  uint32_t* state = call.OutAs<uint32_t>(0);
  // The modifier makes another key of the seed.
  const Philox::Words words =
      Philox(seed[0], seed[1], ~uint64_t{0}).Block(call.attributes.Size("modifier"));
  std::copy(words.begin(), words.begin() + 2, state);
  state[2] = 0;
}

const poputil::FloatKernelRegistration kUniform("poprand::uniform", Uniform);
const poputil::FloatKernelRegistration kBernoulli("poprand::bernoulli", Bernoulli);
const poputil::FloatKernelRegistration kNormal("poprand::normal", Normal);
const poputil::FloatKernelRegistration kTruncated("poprand::truncatedNormal", TruncatedNormal);
const poputil::FloatKernelRegistration kLogUniform("poprand::logUniform", LogUniform);
const poputil::FloatKernelRegistration kDropout("poprand::dropout", Dropout);
const poputil::FloatKernelRegistration kSetSeed("poprand::setSeed", SetSeed);

}  // namespace
}  // namespace poprand
