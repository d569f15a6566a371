// The op Mul.
#ifndef popart_op_mul_hpp
#define popart_op_mul_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class MulOp : public ElementWiseBinaryOp {
 public:
  using ElementWiseBinaryOp::ElementWiseBinaryOp;
  std::unique_ptr<Op> clone() const override { return std::unique_ptr<Op>(new MulOp(*this)); }
};

}  // namespace popart

#endif  // popart_op_mul_hpp
