// The op Neg.
#ifndef popart_op_negate_hpp
#define popart_op_negate_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class NegateOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
  std::unique_ptr<Op> clone() const override { return std::unique_ptr<Op>(new NegateOp(*this)); }
};

}  // namespace popart

#endif  // popart_op_negate_hpp
