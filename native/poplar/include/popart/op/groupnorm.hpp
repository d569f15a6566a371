// The op GroupNormalization.
#ifndef popart_op_groupnorm_hpp
#define popart_op_groupnorm_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class GroupNormOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getXInIndex() { return 0; }
  static InIndex getScaleInIndex() { return 1; }
  static InIndex getBInIndex() { return 2; }
  static OutIndex getYOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_groupnorm_hpp
