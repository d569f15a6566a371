// The op Accumulate.
#ifndef popart_op_accumulate_hpp
#define popart_op_accumulate_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class AccumulateOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static InIndex getVarToUpdateInIndex() { return 0; }
  static InIndex getUpdaterInIndex() { return 1; }
  static OutIndex getUpdatedVarOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_accumulate_hpp
