// The op Mul.
#ifndef popart_op_mul_hpp
#define popart_op_mul_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class MulOp : public ElementWiseBinaryOp {
 public:
  using ElementWiseBinaryOp::ElementWiseBinaryOp;
};

}  // namespace popart

#endif  // popart_op_mul_hpp
