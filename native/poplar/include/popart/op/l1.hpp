// The op L1.
#ifndef popart_op_l1_hpp
#define popart_op_l1_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class L1Op : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getInIndex() { return 0; }
  static OutIndex getOutIndex() { return 0; }
  bool isLossOp() const override { return true; }
};

}  // namespace popart

#endif  // popart_op_l1_hpp
