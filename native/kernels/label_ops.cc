// Labels that are no class, as compiled programs take them.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

// Gives the examples with such a label NaN for logits, and another label: their loss and gradient
// become NaN, where TensorFlow's kernel for the CPU ends with an error. All others pass.
template <typename T, typename Label>
class MaskLabelsOp : public OpKernel {
 public:
  explicit MaskLabelsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor& logits = ctx->input(0);
    const Tensor& labels = ctx->input(1);
    // The op that takes both says what is wrong with other shapes.
    if (logits.dims() == 2 && logits.dim_size(1) > 0 && labels.dims() == 1 &&
        labels.dim_size(0) == logits.dim_size(0) && AnyIsNoClass(labels, logits.dim_size(1))) {
      return Mask(ctx, logits, labels);
    }
    ctx->set_output(0, logits);
    ctx->set_output(1, labels);
  }

 private:
  static bool IsClass(Label label, int64_t classes) { return label >= 0 && label < classes; }

  static bool AnyIsNoClass(const Tensor& labels, int64_t classes) {
    const auto values = labels.vec<Label>();
    return !std::all_of(values.data(), values.data() + values.size(),
                        [classes](Label label) { return IsClass(label, classes); });
  }

  static void Mask(OpKernelContext* ctx, const Tensor& logits, const Tensor& labels) {
    Tensor *masked, *safe;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, logits.shape(), &masked));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, labels.shape(), &safe));
    masked->matrix<T>() = logits.matrix<T>();
    const auto values = labels.vec<Label>();
    for (int64_t i = 0; i < values.size(); ++i) {
      const bool is_class = IsClass(values(i), logits.dim_size(1));
      safe->vec<Label>()(i) = is_class ? values(i) : 0;
      if (!is_class) {
        masked->matrix<T>().template chip<0>(i).setConstant(
            static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
      }
    }
  }
};

}  // namespace

REGISTER_OP("IpuMaskLabels")
    .Input("logits: T")
    .Input("labels: Tlabels")
    .Output("masked_logits: T")
    .Output("masked_labels: Tlabels")
    .Attr("T: {half, bfloat16, float}")
    .Attr("Tlabels: {int32, int64}")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(0));
      c->set_output(1, c->input(1));
      return tensorflow::OkStatus();
    })
    .Doc("Logits and labels, where NaN stands for the logits of labels that are no class.");

#define REGISTER_MASK_LABELS(T, Label)                           \
  REGISTER_KERNEL_BUILDER(Name("IpuMaskLabels")                  \
                              .Device(tensorflow::DEVICE_CPU)    \
                              .TypeConstraint<T>("T")            \
                              .TypeConstraint<Label>("Tlabels"), \
                          MaskLabelsOp<T, Label>)

REGISTER_MASK_LABELS(float, int32_t);
REGISTER_MASK_LABELS(float, int64_t);
REGISTER_MASK_LABELS(Eigen::half, int32_t);
REGISTER_MASK_LABELS(Eigen::half, int64_t);
REGISTER_MASK_LABELS(Eigen::bfloat16, int32_t);
REGISTER_MASK_LABELS(Eigen::bfloat16, int64_t);

#undef REGISTER_MASK_LABELS

}  // namespace tensorflow_ipu
