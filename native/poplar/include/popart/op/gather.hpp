// The op Gather.
#ifndef popart_op_gather_hpp
#define popart_op_gather_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class GatherOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex dataInIndex() { return 0; }
  static InIndex indicesInIndex() { return 1; }
  static OutIndex outIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_gather_hpp
