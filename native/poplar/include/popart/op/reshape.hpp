// The op Reshape.
#ifndef popart_op_reshape_hpp
#define popart_op_reshape_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class ReshapeOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getInIndex() { return 0; }
  static OutIndex getOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_reshape_hpp
