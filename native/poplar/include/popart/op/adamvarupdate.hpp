// The op AdamVarUpdate.
#ifndef popart_op_adamvarupdate_hpp
#define popart_op_adamvarupdate_hpp

#include <popart/op.hpp>

namespace popart {

class AdamVarUpdateOp : public Op {
 public:
  using Op::Op;
  static InIndex getVarToUpdateInIndex() { return 0; }
  static OutIndex getUpdatedVarOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_adamvarupdate_hpp
