// The op Relu.
#ifndef popart_op_relu_hpp
#define popart_op_relu_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class ReluOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
  std::unique_ptr<Op> clone() const override { return std::unique_ptr<Op>(new ReluOp(*this)); }
};

}  // namespace popart

#endif  // popart_op_relu_hpp
