// The op Reshape.
#ifndef popart_op_reshape_hpp
#define popart_op_reshape_hpp

#include <popart/op.hpp>

namespace popart {

class ReshapeOp : public Op {
 public:
  using Op::Op;
  static InIndex getInIndex() { return 0; }
  static OutIndex getOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_reshape_hpp
