// The op Relu.
#ifndef popart_op_relu_hpp
#define popart_op_relu_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class ReluOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
};

}  // namespace popart

#endif  // popart_op_relu_hpp
