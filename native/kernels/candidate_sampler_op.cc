// Candidate sampling with random numbers of the device: TensorFlow's samplers, without their state.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/launch_context.h"
#include "engine/random_bits.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/kernels/range_sampler.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/lib/random/simple_philox.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class CandidateSamplerOp : public OpKernel {
 public:
  explicit CandidateSamplerOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int64_t range;
    std::string distribution;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_true", &num_true_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_sampled", &num_sampled_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("unique", &unique_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("range_max", &range));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("distribution", &distribution));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed", &seed_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed2", &seed2_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stream", &stream_));
    OP_REQUIRES(ctx, !unique_ || num_sampled_ <= range,
                tensorflow::errors::InvalidArgument(
                    "Sampler's range is too small: num_sampled must be at most range_max when "
                    "samples are unique. Received: num_sampled=",
                    num_sampled_, ", range_max=", range));
    if (distribution == "log_uniform") {
      sampler_ = std::make_unique<tensorflow::LogUniformSampler>(range);
    } else {
      sampler_ = std::make_unique<tensorflow::UniformSampler>(range);
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& classes = ctx->input(0);
    OP_REQUIRES_OK(ctx, Check(classes));
    uint64_t key;
    OP_REQUIRES_OK(ctx, Seed(ctx, &key));
    Tensor *sampled, *true_count, *sampled_count;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({num_sampled_}), &sampled));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, classes.shape(), &true_count));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, TensorShape({num_sampled_}), &sampled_count));
    tensorflow::random::PhiloxRandom generator(key);
    tensorflow::random::SimplePhilox random(&generator);
    const auto span = [](auto flat) {
      return tensorflow::gtl::MutableArraySlice<typename decltype(flat)::Scalar>(flat.data(),
                                                                                 flat.size());
    };
    const auto extras = classes.flat<int64_t>();
    sampler_->SampleBatchGetExpectedCount(
        &random, unique_, span(sampled->flat<int64_t>()), span(sampled_count->flat<float>()),
        tensorflow::gtl::ArraySlice<int64_t>(extras.data(), extras.size()),
        span(true_count->flat<float>()));
  }

 private:
  Status Check(const Tensor& classes) const {
    if (classes.dims() != 2 || classes.dim_size(1) != num_true_) {
      return tensorflow::errors::InvalidArgument("true_classes must be of the shape [batch_size, ",
                                                 num_true_,
                                                 "]. Received: ", classes.shape().DebugString());
    }
    const auto values = classes.flat<int64_t>();
    for (int64_t i = 0; i < values.size(); ++i) {
      if (values(i) < 0 || values(i) >= sampler_->range()) {
        return tensorflow::errors::InvalidArgument("true_classes must be in the range [0, ",
                                                   sampler_->range(), "). Received: ", values(i));
      }
    }
    return tensorflow::OkStatus();
  }

  // A seed of the user is the same in each execution, and differs only from replica to replica.
  Status Seed(OpKernelContext* ctx, uint64_t* key) const {
    LaunchContext* launch = LaunchContext::From(ctx);
    if (launch == nullptr) {
      return tensorflow::errors::Internal(
          "A random op of the device was run outside an IPU program.");
    }
    if (seed2_ != 0) {
      *key = CombineBits(CombineBits(seed_, seed2_), launch->replica());
    } else {
      *key = CombineBits(launch->seed(), CombineBits(stream_, launch->NextOccurrence(stream_)));
    }
    return tensorflow::OkStatus();
  }

  int64_t num_true_, num_sampled_, seed_, seed2_, stream_;
  bool unique_;
  std::unique_ptr<tensorflow::RangeSampler> sampler_;
};

}  // namespace

REGISTER_OP("IpuCandidateSampler")
    .Input("true_classes: int64")
    .Output("sampled_candidates: int64")
    .Output("true_expected_count: float")
    .Output("sampled_expected_count: float")
    .Attr("num_true: int >= 1")
    .Attr("num_sampled: int >= 1")
    .Attr("unique: bool")
    .Attr("range_max: int >= 1")
    .Attr("distribution: {'log_uniform', 'uniform'}")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      int64_t num_true, num_sampled;
      TF_RETURN_IF_ERROR(c->GetAttr("num_true", &num_true));
      TF_RETURN_IF_ERROR(c->GetAttr("num_sampled", &num_sampled));
      tensorflow::shape_inference::ShapeHandle classes;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &classes));
      c->set_output(0, c->Vector(num_sampled));
      c->set_output(1, c->Matrix(c->Dim(classes, 0), num_true));
      c->set_output(2, c->Vector(num_sampled));
      return tensorflow::OkStatus();
    })
    .Doc("Samples classes with random numbers of the device; without seed2, others each time.");

REGISTER_KERNEL_BUILDER(Name("IpuCandidateSampler").Device(tensorflow::DEVICE_CPU),
                        CandidateSamplerOp);

}  // namespace tensorflow_ipu
