// The op MatMul.
#ifndef popart_op_matmul_hpp
#define popart_op_matmul_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class MatMulOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getLhsInIndex() { return 0; }
  static InIndex getRhsInIndex() { return 1; }
  static OutIndex getOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_matmul_hpp
