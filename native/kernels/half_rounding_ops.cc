// Rounds results that were computed in float32 to the values that float16 has.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "engine/launch_context.h"
#include "engine/random_bits.h"
#include "kernels/half_vectors.h"
#include "kernels/numerics_kernel.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kLeastNormalHalf = 0x38800000u;  // 2^-14
constexpr uint32_t kLostBits = 0x1fffu;             // float32 has 13 bits more than float16
// Subnormal halves are multiples of 2^-24.
constexpr float kSubnormalsPerOne = 16777216.0f;
constexpr int64_t kCyclesPerElement = 4;

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What becomes of finite values that float16 cannot hold. They are infinite on the IPU model.
enum class OnOverflow { kClip, kNan, kInfinite };

float Overflow(float value, OnOverflow mode) {
  if (mode == OnOverflow::kNan) return kNan;
  return std::copysign(mode == OnOverflow::kClip ? kHalfMax : HUGE_VALF, value);
}

float RoundOne(float value, OnOverflow mode) {
  const float rounded = static_cast<float>(static_cast<Eigen::half>(value));
  return std::isinf(rounded) && !std::isinf(value) ? Overflow(value, mode) : rounded;
}

#ifdef TFIPU_HALF_VECTORS
// Eight elements at a time, with the conversions of the processor. Leaves the rest.
__attribute__((target("avx2,f16c"))) int64_t RoundEights(const float* from, float* to,
                                                         int64_t count, OnOverflow mode) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 limit = _mm256_set1_ps(kHalfOverflow);
  const __m256 infinity = _mm256_set1_ps(HUGE_VALF);
  const __m256 nan = _mm256_set1_ps(kNan);
  const __m256 overflow = _mm256_set1_ps(Overflow(1.0f, mode));
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_loadu_ps(from + i);
    const __m256 magnitude = _mm256_andnot_ps(sign, value);
    const __m128i half = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    __m256 rounded = _mm256_cvtph_ps(half);
    // Not below the limit, so infinities and NaN are among them. A model that has got one of
    // them soon has nothing else.
    const __m256 large = _mm256_cmp_ps(magnitude, limit, _CMP_NLT_UQ);
    if (_mm256_movemask_ps(large) != 0) {
      const __m256 infinite = _mm256_cmp_ps(magnitude, infinity, _CMP_EQ_OQ);
      const __m256 no_number = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
      __m256 instead = _mm256_blendv_ps(overflow, infinity, infinite);
      instead = _mm256_blendv_ps(instead, nan, no_number);
      // NaN in the place of an overflow has no sign.
      const __m256 own =
          mode == OnOverflow::kNan ? _mm256_and_ps(sign, _mm256_or_ps(infinite, no_number)) : sign;
      instead = _mm256_or_ps(instead, _mm256_and_ps(value, own));
      rounded = _mm256_blendv_ps(rounded, instead, large);
    }
    _mm256_storeu_ps(to + i, rounded);
  }
  return i;
}

int64_t RoundFirst(const float* from, float* to, int64_t count, OnOverflow mode) {
  return HasHalfVectors() ? RoundEights(from, to, count, mode) : 0;
}
#else
int64_t RoundFirst(const float*, float*, int64_t, OnOverflow) { return 0; }
#endif

// To the nearest value, ties to even.
void Round(const float* from, float* to, int64_t count, OnOverflow mode) {
  for (int64_t i = RoundFirst(from, to, count, mode); i < count; ++i) {
    to[i] = RoundOne(from[i], mode);
  }
}

// To one of the two neighbours, the nearer one the more often: the mean is the value itself.
// `random` is uniform on 32 bits.
float RoundOneStochastically(float value, uint32_t random, OnOverflow mode) {
  const uint32_t bits = Bits(value);
  const uint32_t magnitude = bits & ~kSign;
  if (magnitude >= kInfinity) return value;
  if (magnitude >= kLeastNormalHalf) {
    // Adding a random number below one unit of the last place, then cutting off, carries with
    // the probability of the part that is cut off. All 13 bits count, so this is exact.
    const uint32_t rounded = (magnitude + (random & kLostBits)) & ~kLostBits;
    if (FromBits(rounded) > kHalfMax) return Overflow(value, mode);
    return FromBits(rounded | (bits & kSign));
  }
  const float units = FromBits(magnitude) * kSubnormalsPerOne;  // exact: a power of two
  const float whole = std::floor(units);
  const double part = static_cast<double>(units) - whole;
  const bool up = random < part * 4294967296.0;
  return std::copysign((whole + (up ? 1.0f : 0.0f)) / kSubnormalsPerOne, value);
}

// The bits for element i are a function of `key` and i alone, so they do not depend on threads.
void RoundStochastically(const float* from, float* to, int64_t begin, int64_t end, uint64_t key,
                         OnOverflow mode) {
  for (int64_t i = begin; i < end;) {
    uint64_t state = key + static_cast<uint64_t>(i / 2) * 0x9E3779B97F4A7C15ull;
    const uint64_t random = NextRandomBits(&state);
    if (i % 2 == 0) {
      to[i] = RoundOneStochastically(from[i], static_cast<uint32_t>(random), mode);
      if (++i == end) break;
    }
    to[i] = RoundOneStochastically(from[i], static_cast<uint32_t>(random >> 32), mode);
    ++i;
  }
}

// Takes the overflows of float32 for overflows of float16, and gives divisions by zero their
// result. Which of them an infinity is, or neither, only the operands tell.
void ResolveInfinities(const Operands& operands, bool divides, OnOverflow mode, float* values,
                       int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isinf(values[i])) continue;
    const InfinityCause cause = operands.CauseOf(i);
    if (cause == InfinityCause::kOverflow) values[i] = Overflow(values[i], mode);
    if (cause == InfinityCause::kPole && divides) values[i] = kNan;
  }
}

class RoundToHalfOp : public OpKernel {
 public:
  explicit RoundToHalfOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, arithmetic_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("divides", &divides_));
    std::string overflow;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("overflow", &overflow));
    mode_ = overflow == "nan"        ? OnOverflow::kNan
            : overflow == "infinite" ? OnOverflow::kInfinite
                                     : OnOverflow::kClip;
    stochastic_ = ctx->HasAttr("stream");
    if (stochastic_) {
      OP_REQUIRES_OK(ctx, ctx->GetAttr("stream", &stream_));
      OP_REQUIRES_OK(ctx, ctx->GetAttr("same_on_all_replicas", &same_));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& value = ctx->input(0);
    uint64_t key = 0;
    if (stochastic_) OP_REQUIRES_OK(ctx, DrawKey(ctx, &key));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output({0}, 0, value.shape(), &output));
    const float* from = value.flat<float>().data();
    float* to = output->flat<float>().data();
    const auto work = [&](int64_t begin, int64_t end) {
      if (stochastic_) {
        RoundStochastically(from, to, begin, end, key, mode_);
      } else {
        Round(from + begin, to + begin, end - begin, mode_);
      }
    };
    const auto& workers = *ctx->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(workers.num_threads, workers.workers, value.NumElements(),
                      stochastic_ ? 2 * kCyclesPerElement : 1, work);
    if (ctx->num_inputs() > 1) {
      const Operands operands(arithmetic_, ctx, 1, value.shape());
      ResolveInfinities(operands, divides_, mode_, to, value.NumElements());
    }
  }

 private:
  tensorflow::Status DrawKey(OpKernelContext* ctx, uint64_t* key) const {
    LaunchContext* launch = LaunchContext::From(ctx);
    if (launch == nullptr) {
      return tensorflow::errors::Internal("Stochastic rounding was run outside an IPU program.");
    }
    const auto occurrence = static_cast<uint64_t>(launch->NextOccurrence(stream_));
    *key = CombineBits(same_ ? launch->shared_seed() : launch->seed(),
                       CombineBits(static_cast<uint64_t>(stream_), occurrence));
    return tensorflow::OkStatus();
  }

  Arithmetic arithmetic_;
  OnOverflow mode_;
  bool divides_;
  bool stochastic_;
  bool same_ = false;
  int64_t stream_ = 0;
};

}  // namespace

REGISTER_OP("IpuRoundToHalf")
    .Input("value: float")
    .Input("operands: Toperands")
    .Output("output: float")
    .Attr("Toperands: list(type) >= 0")
    .Attr("overflow: {'clip', 'nan', 'infinite'}")
    .Attr("divides: bool = false")
    .Attr("elementwise: bool = false")
    .Attr("pole: {'', 'any', 'zero', 'nonpositive'} = ''")
    .Attr("pole_operand: int = 0")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Rounds to the nearest float16, the results still in float32.");

REGISTER_OP("IpuRoundStochastically")
    .Input("value: float")
    .Input("operands: Toperands")
    .Output("output: float")
    .Attr("Toperands: list(type) >= 0")
    .Attr("overflow: {'clip', 'nan', 'infinite'}")
    .Attr("divides: bool = false")
    .Attr("elementwise: bool = false")
    .Attr("pole: {'', 'any', 'zero', 'nonpositive'} = ''")
    .Attr("pole_operand: int = 0")
    .Attr("stream: int")
    .Attr("same_on_all_replicas: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Rounds to one of the two nearest float16, at random, the results still in float32.");

REGISTER_KERNEL_BUILDER(Name("IpuRoundToHalf").Device(tensorflow::DEVICE_CPU), RoundToHalfOp);
REGISTER_KERNEL_BUILDER(Name("IpuRoundStochastically").Device(tensorflow::DEVICE_CPU),
                        RoundToHalfOp);

}  // namespace tensorflow_ipu
