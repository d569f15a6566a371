// The op Dropout.
#ifndef popart_op_dropout_hpp
#define popart_op_dropout_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class DropoutBaseOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getInIndex() { return 0; }
  static OutIndex getOutIndex() { return 0; }
};

class DropoutOp : public DropoutBaseOp {
 public:
  using DropoutBaseOp::DropoutBaseOp;
};

}  // namespace popart

#endif  // popart_op_dropout_hpp
