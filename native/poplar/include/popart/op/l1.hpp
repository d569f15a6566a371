// The op L1.
#ifndef popart_op_l1_hpp
#define popart_op_l1_hpp

#include <popart/op.hpp>

namespace popart {

class L1Op : public Op {
 public:
  using Op::Op;
  static InIndex getInIndex() { return 0; }
  static OutIndex getOutIndex() { return 0; }
  bool isLossOp() const override { return true; }
};

}  // namespace popart

#endif  // popart_op_l1_hpp
