// The op Sqrt.
#ifndef popart_op_sqrt_hpp
#define popart_op_sqrt_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class SqrtOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
};

}  // namespace popart

#endif  // popart_op_sqrt_hpp
