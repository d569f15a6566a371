// The op Loop.
#ifndef popart_op_loop_hpp
#define popart_op_loop_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class LoopOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getMaximumTripCountInIndex() { return 0; }
  static InIndex getTerminationConditionInIndex() { return 1; }
};

}  // namespace popart

#endif  // popart_op_loop_hpp
