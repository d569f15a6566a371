// Casts between float16 and float32, with the conversions of the processor: TensorFlow's kernel
// takes five times as long.
#include <cstdint>

#include "kernels/half_vectors.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr int kCyclesPerElement = 1;

// Eight elements at a time. These leave the rest, and return where it starts.
#ifdef TFIPU_HALF_VECTORS
__attribute__((target("avx2,f16c"))) int64_t CastEights(const Eigen::half* from, float* to,
                                                        int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto* half = reinterpret_cast<const __m128i*>(from + i);
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(half)));
  }
  return i;
}

__attribute__((target("avx2,f16c"))) int64_t CastEights(const float* from, Eigen::half* to,
                                                        int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
  return i;
}

template <typename From, typename To>
int64_t CastFirst(const From* from, To* to, int64_t count) {
  return HasHalfVectors() ? CastEights(from, to, count) : 0;
}
#else
template <typename From, typename To>
int64_t CastFirst(const From*, To*, int64_t) {
  return 0;
}
#endif

template <typename From, typename To>
class CastOp : public OpKernel {
 public:
  explicit CastOp(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor& input = ctx->input(0);
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, input.shape(), &output));
    const From* from = input.flat<From>().data();
    To* to = output->flat<To>().data();
    const auto work = [from, to](int64_t begin, int64_t end) {
      int64_t i = begin + CastFirst(from + begin, to + begin, end - begin);
      for (; i < end; ++i) to[i] = static_cast<To>(from[i]);
    };
    const auto& workers = *ctx->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(workers.num_threads, workers.workers, input.NumElements(), kCyclesPerElement,
                      work);
  }
};

}  // namespace

REGISTER_OP("IpuHalfToFloat")
    .Input("value: half")
    .Output("output: float")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The same values in float32.");

REGISTER_OP("IpuFloatToHalf")
    .Input("value: float")
    .Output("output: half")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The nearest values of float16, infinite at an overflow.");

REGISTER_KERNEL_BUILDER(Name("IpuHalfToFloat").Device(tensorflow::DEVICE_CPU),
                        CastOp<Eigen::half, float>);
REGISTER_KERNEL_BUILDER(Name("IpuFloatToHalf").Device(tensorflow::DEVICE_CPU),
                        CastOp<float, Eigen::half>);

}  // namespace tensorflow_ipu
