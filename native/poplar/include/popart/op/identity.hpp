// The op Identity.
#ifndef popart_op_identity_hpp
#define popart_op_identity_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class IdentityOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
  std::unique_ptr<Op> clone() const override { return std::unique_ptr<Op>(new IdentityOp(*this)); }
};

class IdentityGradOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
  std::unique_ptr<Op> clone() const override {
    return std::unique_ptr<Op>(new IdentityGradOp(*this));
  }
};

}  // namespace popart

#endif  // popart_op_identity_hpp
