// The op AdamVarUpdate.
#ifndef popart_op_adamvarupdate_hpp
#define popart_op_adamvarupdate_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class AdamVarUpdateOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getVarToUpdateInIndex() { return 0; }
  static OutIndex getUpdatedVarOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_adamvarupdate_hpp
