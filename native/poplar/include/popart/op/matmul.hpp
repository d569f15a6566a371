// The op MatMul.
#ifndef popart_op_matmul_hpp
#define popart_op_matmul_hpp

#include <popart/op.hpp>

namespace popart {

class MatMulOp : public Op {
 public:
  using Op::Op;
  static InIndex getLhsInIndex() { return 0; }
  static InIndex getRhsInIndex() { return 1; }
  static OutIndex getOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_matmul_hpp
