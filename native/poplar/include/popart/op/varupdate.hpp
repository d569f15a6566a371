// Ops that update variables.
#ifndef popart_op_varupdate_hpp
#define popart_op_varupdate_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class VarUpdateOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getVarToUpdateInIndex() { return 0; }
  static OutIndex getUpdatedVarOutIndex() { return 0; }
};

class VarUpdateWithUpdaterOp : public VarUpdateOp {
 public:
  using VarUpdateOp::VarUpdateOp;
  static InIndex getUpdaterInIndex() { return 1; }
};

}  // namespace popart

#endif  // popart_op_varupdate_hpp
