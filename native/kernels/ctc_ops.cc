// Connectionist temporal classification: the loss with its gradient, and the beam search. Unlike
// TensorFlow's ops these have static shapes, a blank at any place, and empty label sequences.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "poplar/src/popnn/ctc_alignment.h"
#include "poplar/src/popnn/ctc_beam_search.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// How many elements take about as long as one sum of logarithms, for the sharder.
constexpr int64_t kCyclesPerSum = 60;

// What both ops have: log probabilities [steps, batch, classes], lengths [batch] and a blank.
class CtcKernel : public OpKernel {
 public:
  explicit CtcKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("blank_index", &blank_));
  }

 protected:
  Status CheckProbs(const Tensor& probs) const {
    if (probs.dims() != 3) {
      return tensorflow::errors::InvalidArgument(
          "The log probabilities must be of the shape [max_time, batch_size, num_classes]. "
          "Received: ",
          probs.shape().DebugString());
    }
    if (blank_ >= probs.dim_size(2)) {
      return tensorflow::errors::InvalidArgument("blank_index must be in the range [0, ",
                                                 probs.dim_size(2), "). Received: ", blank_);
    }
    return tensorflow::OkStatus();
  }

  static Status CheckLengths(const Tensor& lengths, int64_t batch, int64_t limit,
                             const char* name) {
    if (lengths.dims() != 1 || lengths.dim_size(0) != batch) {
      return tensorflow::errors::InvalidArgument(name, " must be of the shape [", batch,
                                                 "]. Received: ", lengths.shape().DebugString());
    }
    const auto values = lengths.vec<int32_t>();
    for (int64_t b = 0; b < batch; ++b) {
      if (values(b) < 0 || values(b) > limit) {
        return tensorflow::errors::InvalidArgument(name, " must be in the range [0, ", limit,
                                                   "]. Received: ", values(b), " for batch entry ",
                                                   b, ".");
      }
    }
    return tensorflow::OkStatus();
  }

  static LogProbs Sequence(const Tensor& probs, int64_t b, int64_t steps) {
    const int64_t classes = probs.dim_size(2);
    return {probs.flat<float>().data() + b * classes, probs.dim_size(1) * classes, steps, classes};
  }

  // Runs `work(b)` for each batch entry, on all threads.
  template <typename Work>
  static void ForEach(OpKernelContext* ctx, int64_t batch, int64_t sums, const Work& work) {
    const auto* workers = ctx->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(workers->num_threads, workers->workers, batch, sums * kCyclesPerSum,
                      [&work](int64_t begin, int64_t end) {
                        for (int64_t b = begin; b < end; ++b) work(b);
                      });
  }

  int blank_;
};

class CtcLossOp : public CtcKernel {
 public:
  using CtcKernel::CtcKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor& probs = ctx->input(0);
    const Tensor& labels = ctx->input(1);
    OP_REQUIRES_OK(ctx, Check(ctx));
    const int64_t batch = probs.dim_size(1), longest = labels.dim_size(1);
    const auto label_lengths = ctx->input(2).vec<int32_t>();
    const auto data_lengths = ctx->input(3).vec<int32_t>();
    Tensor* loss = nullptr;
    Tensor* gradient = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({batch}), &loss));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, probs.shape(), &gradient));
    gradient->flat<float>().setZero();
    float* derivatives = gradient->flat<float>().data();
    auto losses = loss->vec<float>();
    ForEach(ctx, batch, probs.dim_size(0) * (4 * longest + 2), [&](int64_t b) {
      const CtcAlignment alignment(labels.flat<int32_t>().data() + b * longest, label_lengths(b),
                                   blank_);
      losses(b) = static_cast<float>(
          alignment.Loss(Sequence(probs, b, data_lengths(b)), derivatives + b * probs.dim_size(2)));
    });
  }

 private:
  Status Check(OpKernelContext* ctx) const {
    const Tensor& probs = ctx->input(0);
    const Tensor& labels = ctx->input(1);
    TF_RETURN_IF_ERROR(CheckProbs(probs));
    const int64_t batch = probs.dim_size(1);
    if (labels.dims() != 2 || labels.dim_size(0) != batch) {
      return tensorflow::errors::InvalidArgument(
          "labels must be of the shape [", batch,
          ", max_label_length]. Received: ", labels.shape().DebugString());
    }
    TF_RETURN_IF_ERROR(CheckLengths(ctx->input(2), batch, labels.dim_size(1), "label_length"));
    TF_RETURN_IF_ERROR(CheckLengths(ctx->input(3), batch, probs.dim_size(0), "The data length"));
    const auto lengths = ctx->input(2).vec<int32_t>();
    const auto values = labels.matrix<int32_t>();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < lengths(b); ++i) {
        const int32_t label = values(b, i);
        if (label < 0 || label >= probs.dim_size(2) || label == blank_) {
          return tensorflow::errors::InvalidArgument(
              "labels must be in the range [0, ", probs.dim_size(2), ") and not the blank_index ",
              blank_, ". Received: ", label, " at [", b, ", ", i, "].");
        }
      }
    }
    return tensorflow::OkStatus();
  }
};

class CtcBeamSearchOp : public CtcKernel {
 public:
  explicit CtcBeamSearchOp(OpKernelConstruction* ctx) : CtcKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("beam_width", &width_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("top_paths", &paths_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& probs = ctx->input(0);
    OP_REQUIRES_OK(ctx, CheckProbs(probs));
    const int64_t steps = probs.dim_size(0), batch = probs.dim_size(1);
    const int classes = static_cast<int>(probs.dim_size(2));
    OP_REQUIRES_OK(ctx, CheckLengths(ctx->input(1), batch, steps, "The data length"));
    const auto data_lengths = ctx->input(1).vec<int32_t>();
    Tensor* score = nullptr;
    Tensor* length = nullptr;
    Tensor* label = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({batch, paths_}), &score));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({batch, paths_}), &length));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, TensorShape({batch, paths_, steps}), &label));
    score->flat<float>().setConstant(-kImpossible);
    length->flat<int32_t>().setZero();
    label->flat<int32_t>().setConstant(blank_);
    ForEach(ctx, batch, steps * width_ * classes, [&](int64_t b) {
      CtcBeamSearch search(classes, width_, blank_);
      search.Run(Sequence(probs, b, data_lengths(b)));
      const size_t found = std::min<size_t>(paths_, search.beams().size());
      for (size_t p = 0; p < found; ++p) {
        const std::vector<int> labels = search.Labels(search.beams()[p]);
        score->matrix<float>()(b, p) = static_cast<float>(-search.beams()[p].total());
        length->matrix<int32_t>()(b, p) = static_cast<int32_t>(labels.size());
        std::copy(labels.begin(), labels.end(),
                  label->flat<int32_t>().data() + (b * paths_ + p) * steps);
      }
    });
  }

 private:
  int width_;
  int paths_;
};

Status CtcLossShape(InferenceContext* c) {
  ShapeHandle probs, labels, lengths;
  DimensionHandle batch;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &probs));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &labels));
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(probs, 1), c->Dim(labels, 0), &batch));
  for (int i = 2; i < 4; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &lengths));
    TF_RETURN_IF_ERROR(c->Merge(batch, c->Dim(lengths, 0), &batch));
  }
  c->set_output(0, c->Vector(batch));
  TF_RETURN_IF_ERROR(c->ReplaceDim(probs, 1, batch, &probs));
  c->set_output(1, probs);
  return tensorflow::OkStatus();
}

Status CtcBeamSearchShape(InferenceContext* c) {
  ShapeHandle probs, lengths;
  DimensionHandle batch;
  int64_t paths;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &probs));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &lengths));
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(probs, 1), c->Dim(lengths, 0), &batch));
  TF_RETURN_IF_ERROR(c->GetAttr("top_paths", &paths));
  c->set_output(0, c->Matrix(batch, paths));
  c->set_output(1, c->Matrix(batch, paths));
  c->set_output(2, c->MakeShape({batch, c->MakeDim(paths), c->Dim(probs, 0)}));
  return tensorflow::OkStatus();
}

}  // namespace

REGISTER_OP("IpuCtcLoss")
    .Input("log_probs: float")
    .Input("labels: int32")
    .Input("label_length: int32")
    .Input("data_length: int32")
    .Output("loss: float")
    .Output("gradient: float")
    .Attr("blank_index: int >= 0")
    .SetShapeFn(CtcLossShape)
    .Doc("The negative log probability of label sequences, and its gradient by logits.");

REGISTER_OP("IpuCtcBeamSearch")
    .Input("log_probs: float")
    .Input("data_length: int32")
    .Output("negative_log_probability: float")
    .Output("length: int32")
    .Output("labels: int32")
    .Attr("beam_width: int >= 1")
    .Attr("top_paths: int >= 1")
    .Attr("blank_index: int >= 0")
    .SetShapeFn(CtcBeamSearchShape)
    .Doc("Finds the likely label sequences of log probabilities.");

REGISTER_KERNEL_BUILDER(Name("IpuCtcLoss").Device(tensorflow::DEVICE_CPU), CtcLossOp);
REGISTER_KERNEL_BUILDER(Name("IpuCtcLoss")
                            .Device("IPU")
                            .HostMemory("log_probs")
                            .HostMemory("labels")
                            .HostMemory("label_length")
                            .HostMemory("data_length")
                            .HostMemory("loss")
                            .HostMemory("gradient"),
                        CtcLossOp);
REGISTER_KERNEL_BUILDER(Name("IpuCtcBeamSearch").Device(tensorflow::DEVICE_CPU), CtcBeamSearchOp);
REGISTER_KERNEL_BUILDER(Name("IpuCtcBeamSearch")
                            .Device("IPU")
                            .HostMemory("log_probs")
                            .HostMemory("data_length")
                            .HostMemory("negative_log_probability")
                            .HostMemory("length")
                            .HostMemory("labels"),
                        CtcBeamSearchOp);

}  // namespace tensorflow_ipu
