// The op Sqrt.
#ifndef popart_op_sqrt_hpp
#define popart_op_sqrt_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class SqrtOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
  std::unique_ptr<Op> clone() const override { return std::unique_ptr<Op>(new SqrtOp(*this)); }
};

}  // namespace popart

#endif  // popart_op_sqrt_hpp
