// The floating-point traps of the device.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "engine/launch_context.h"
#include "kernels/numerics_kernel.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Bits of a magnitude, which are in the order of the magnitudes, and NaN above infinity.
uint32_t MagnitudeBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffffu;
}

// Processors of x86-64 take the form that they can run.
#if defined(__x86_64__)
#define TFIPU_CLONES target_clones("avx2", "default")
#else
#define TFIPU_CLONES
#endif

// The greatest magnitude of all: one pass without a branch, so a tensor without events is cheap.
__attribute__((optimize("O3"), TFIPU_CLONES)) uint32_t GreatestMagnitude(const float* values,
                                                                         int64_t count) {
  const auto* bits = reinterpret_cast<const int32_t*>(values);
  int32_t greatest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t magnitude = bits[i] & 0x7fffffff;
    greatest = magnitude > greatest ? magnitude : greatest;
  }
  return static_cast<uint32_t>(greatest);
}

std::string Index(int64_t flat, const tensorflow::TensorShape& shape) {
  std::string text;
  for (int d = shape.dims() - 1; d >= 0; --d) {
    const std::string separator = text.empty() ? "" : ", ";
    text = tensorflow::strings::StrCat(flat % shape.dim_size(d), separator, text);
    flat /= shape.dim_size(d);
  }
  return "[" + text + "]";
}

// The error that ends the program. Programs look for the words that are not about this event.
tensorflow::Status Exception(OpKernelContext* ctx, const char* event, const char* option,
                             const std::string& name, const std::string& op,
                             const std::string& deed) {
  const LaunchContext* launch = LaunchContext::From(ctx);
  const std::string replica = launch == nullptr || launch->num_replicas() == 1
                                  ? ""
                                  : tensorflow::strings::StrCat(" on replica ", launch->replica());
  return tensorflow::errors::Internal(
      "[Poplar][Execute engine] application_runtime_error: [Recovery action: IPU_RESET] Tiles in "
      "excepted state: floating-point exception on the IPU",
      replica, ": ", event, " in ", name, " (", op, "), which ", deed,
      ". IPU will be reset the next time a program is executed. Find where the values come from, "
      "or set floating_point_behaviour.",
      option, " = False to go on without an error.");
}

class CheckNumericsOp : public OpKernel {
 public:
  explicit CheckNumericsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, arithmetic_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("checked_name", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("checked_op", &op_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("inv", &inv_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("div0", &div0_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("oflo", &oflo_));
    bool to_half;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("to_half", &to_half));
    finite_ = MagnitudeBits(to_half ? kHalfOverflow : HUGE_VALF);
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& value = ctx->input(0);
    const auto values = value.flat<float>();
    if (GreatestMagnitude(values.data(), values.size()) >= finite_) {
      OP_REQUIRES_OK(ctx, FindEvent(ctx, value));
    }
    ctx->set_output(0, value);
  }

 private:
  tensorflow::Status FindEvent(OpKernelContext* ctx, const Tensor& value) const {
    const auto values = value.flat<float>();
    const Operands operands(arithmetic_, ctx, 1, value.shape());
    for (int64_t i = 0; i < values.size(); ++i) {
      if (MagnitudeBits(values(i)) < finite_) continue;
      if (std::isnan(values(i))) {
        if (inv_) return Trap(ctx, "invalid operation", "inv", value, i);
        continue;
      }
      const InfinityCause cause =
          std::isinf(values(i)) ? operands.CauseOf(i) : InfinityCause::kOverflow;
      if (cause == InfinityCause::kPole && div0_) {
        return Trap(ctx, "division by zero", "div0", value, i);
      }
      if (cause == InfinityCause::kOverflow && oflo_) {
        return Trap(ctx, "overflow", "oflo", value, i);
      }
    }
    return tensorflow::OkStatus();
  }

  tensorflow::Status Trap(OpKernelContext* ctx, const char* event, const char* option,
                          const Tensor& value, int64_t index) const {
    return Exception(
        ctx, event, option, name_, op_,
        tensorflow::strings::StrCat("computed ", value.flat<float>()(index), " as element ",
                                    Index(index, value.shape()), " of its result"));
  }

  Arithmetic arithmetic_;
  std::string name_, op_;
  bool inv_, div0_, oflo_;
  uint32_t finite_;  // magnitudes below this are no event
};

// Whether a number becomes the integer that it is when it is cut off.
template <typename Integer>
bool Fits(float value) {
  const double cut = std::trunc(static_cast<double>(value));  // NaN compares with nothing
  return cut >= static_cast<double>(std::numeric_limits<Integer>::lowest()) &&
         cut < std::ldexp(1.0, std::numeric_limits<Integer>::digits);
}

class CheckCastOp : public OpKernel {
 public:
  explicit CheckCastOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("checked_name", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("to", &type_));
    fits_ = FitsType(type_);
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& value = ctx->input(0);
    const auto values = value.flat<float>();
    for (int64_t i = 0; i < values.size(); ++i) {
      OP_REQUIRES(ctx, fits_(values(i)),
                  Exception(ctx, "invalid operation", "inv", name_, "Cast",
                            tensorflow::strings::StrCat("takes ", values(i), " as element ",
                                                        Index(i, value.shape()), " for the type ",
                                                        tensorflow::DataTypeString(type_))));
    }
    ctx->set_output(0, value);
  }

 private:
  using Test = bool (*)(float);

  static Test FitsType(tensorflow::DataType type) {
    switch (type) {
      case tensorflow::DT_INT8:
        return Fits<int8_t>;
      case tensorflow::DT_UINT8:
        return Fits<uint8_t>;
      case tensorflow::DT_INT16:
        return Fits<int16_t>;
      case tensorflow::DT_UINT16:
        return Fits<uint16_t>;
      case tensorflow::DT_UINT32:
        return Fits<uint32_t>;
      default:  // 64 bits are 32 on the device, but programs here have room for them
        return type == tensorflow::DT_INT64 ? Fits<int64_t> : Fits<int32_t>;
    }
  }

  std::string name_;
  tensorflow::DataType type_;
  Test fits_;
};

}  // namespace

REGISTER_OP("IpuCheckCast")
    .Input("value: float")
    .Output("output: float")
    .Attr("checked_name: string")
    .Attr("to: {int8, uint8, int16, uint16, int32, uint32, int64}")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Ends the program with an error if a value does not fit into a type of integers.");

REGISTER_KERNEL_BUILDER(Name("IpuCheckCast").Device(tensorflow::DEVICE_CPU), CheckCastOp);

REGISTER_OP("IpuCheckNumerics")
    .Input("value: float")
    .Input("operands: Toperands")
    .Output("output: float")
    .Attr("Toperands: list(type) >= 0")
    .Attr("checked_name: string")
    .Attr("checked_op: string")
    .Attr("inv: bool")
    .Attr("div0: bool")
    .Attr("oflo: bool")
    .Attr("to_half: bool = false")
    .Attr("elementwise: bool = false")
    .Attr("pole: {'', 'any', 'zero', 'nonpositive'} = ''")
    .Attr("pole_operand: int = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Ends the program with an error if the arithmetic that gave a value is to be trapped.");

REGISTER_KERNEL_BUILDER(Name("IpuCheckNumerics").Device(tensorflow::DEVICE_CPU), CheckNumericsOp);

}  // namespace tensorflow_ipu
