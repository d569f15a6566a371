#include "kernels/numerics_kernel.h"

#include <cmath>

namespace tensorflow_ipu {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

// Integers and booleans are always finite, and no op of the catalogue has a pole in one.
bool IsFloating(const Tensor& tensor) {
  return tensor.dtype() == tensorflow::DT_FLOAT || tensor.dtype() == tensorflow::DT_HALF;
}

float ValueAt(const Tensor& tensor, int64_t index) {
  return tensor.dtype() == tensorflow::DT_HALF
             ? static_cast<float>(tensor.unaligned_flat<Eigen::half>()(index))
             : tensor.unaligned_flat<float>()(index);
}

bool AllFinite(const Tensor& tensor) {
  if (!IsFloating(tensor)) return true;
  for (int64_t i = 0; i < tensor.NumElements(); ++i) {
    if (!std::isfinite(ValueAt(tensor, i))) return false;
  }
  return true;
}

// Finds the strides of an operand that is broadcast to `result`; none if it is not.
std::vector<int64_t> BroadcastStrides(const TensorShape& operand, const TensorShape& result) {
  const int missing = result.dims() - operand.dims();
  if (missing < 0) return {};
  std::vector<int64_t> strides(result.dims(), 0);
  int64_t stride = 1;
  for (int d = operand.dims() - 1; d >= 0; --d) {
    const int64_t size = operand.dim_size(d);
    if (size != 1 && size != result.dim_size(d + missing)) return {};
    strides[d + missing] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return strides;
}

}  // namespace

tensorflow::Status Arithmetic::Read(tensorflow::OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("elementwise", &elementwise));
  TF_RETURN_IF_ERROR(ctx->GetAttr("pole", &pole));
  return ctx->GetAttr("pole_operand", &pole_operand);
}

Operands::Operands(const Arithmetic& arithmetic, tensorflow::OpKernelContext* ctx, int first,
                   const TensorShape& result)
    : arithmetic_(arithmetic), shape_(result) {
  for (int i = first; i < ctx->num_inputs(); ++i) {
    Operand operand;
    operand.tensor = &ctx->input(i);
    if (arithmetic.elementwise) {
      operand.strides = BroadcastStrides(operand.tensor->shape(), result);
    }
    const bool whole = operand.strides.empty() && operand.tensor->NumElements() != 1;
    operand.all_finite = whole ? AllFinite(*operand.tensor) : true;
    operands_.push_back(std::move(operand));
  }
}

int64_t Operands::Position(const Operand& operand, int64_t index) const {
  int64_t position = 0;
  for (int d = static_cast<int>(operand.strides.size()) - 1; d >= 0; --d) {
    position += index % shape_.dim_size(d) * operand.strides[d];
    index /= shape_.dim_size(d);
  }
  return position;
}

InfinityCause Operands::CauseOf(int64_t index) const {
  bool at_pole = arithmetic_.pole == "any";
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    if (!operand.all_finite) return InfinityCause::kOperand;
    const bool whole = operand.strides.empty() && operand.tensor->NumElements() != 1;
    if (whole || !IsFloating(*operand.tensor)) continue;
    const float value = ValueAt(*operand.tensor, Position(operand, index));
    if (!std::isfinite(value)) return InfinityCause::kOperand;
    if (static_cast<int>(i) != arithmetic_.pole_operand) continue;
    at_pole = at_pole || (arithmetic_.pole == "zero" && value == 0.0f) ||
              (arithmetic_.pole == "nonpositive" && value <= 0.0f);
  }
  return at_pole ? InfinityCause::kPole : InfinityCause::kOverflow;
}

}  // namespace tensorflow_ipu
