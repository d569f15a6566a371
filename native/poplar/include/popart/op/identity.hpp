// The op Identity.
#ifndef popart_op_identity_hpp
#define popart_op_identity_hpp

#include <popart/op/elementwise.hpp>

namespace popart {

class IdentityOp : public ElementWiseUnaryOp {
 public:
  using ElementWiseUnaryOp::ElementWiseUnaryOp;
};

}  // namespace popart

#endif  // popart_op_identity_hpp
