// What the ops that watch and round the results of arithmetic share.
#ifndef TENSORFLOW_IPU_KERNELS_NUMERICS_KERNEL_H_
#define TENSORFLOW_IPU_KERNELS_NUMERICS_KERNEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorflow_ipu {

// The least float32 that rounds to an infinite float16: halfway between 65504 and 65536.
constexpr float kHalfOverflow = 65520.0f;
constexpr float kHalfMax = 65504.0f;

// Why a result is infinite.
enum class InfinityCause {
  kOperand,   // an operand is not finite either, so nothing happened here
  kPole,      // division by zero, logarithm of zero and the like
  kOverflow,  // the exact result is finite
};

// What an op tells of the arithmetic that it follows, as attributes: `elementwise` says that
// element i of the result comes from the elements i of the operands (with broadcasting). `pole`
// says where finite operands give an exact infinity: "" nowhere, "any" whenever the result is
// infinite, "zero" and "nonpositive" for such values of operand number `pole_operand`.
struct Arithmetic {
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  bool elementwise;
  std::string pole;
  int pole_operand;
};

// The operands of one result. Looked at only when something infinite came out.
class Operands {
 public:
  // Inputs `first`, `first` + 1, ... of the kernel are the operands.
  Operands(const Arithmetic& arithmetic, tensorflow::OpKernelContext* ctx, int first,
           const tensorflow::TensorShape& result);

  // Why element `index` of the result is infinite.
  InfinityCause CauseOf(int64_t index) const;

 private:
  // One operand: how far apart its elements are along each dimension of the result, 0 where it is
  // broadcast. Without strides it is taken as a whole.
  struct Operand {
    const tensorflow::Tensor* tensor;
    std::vector<int64_t> strides;
    bool all_finite;
  };

  int64_t Position(const Operand& operand, int64_t index) const;

  const Arithmetic& arithmetic_;
  const tensorflow::TensorShape shape_;
  std::vector<Operand> operands_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_NUMERICS_KERNEL_H_
