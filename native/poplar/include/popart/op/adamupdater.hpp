// The op AdamUpdater.
#ifndef popart_op_adamupdater_hpp
#define popart_op_adamupdater_hpp

#include <popart/op.hpp>

namespace popart {

class AdamUpdaterOp : public Op {
 public:
  using Op::Op;
  static OutIndex getUpdaterOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_adamupdater_hpp
