// The op AdamUpdater.
#ifndef popart_op_adamupdater_hpp
#define popart_op_adamupdater_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class AdamUpdaterOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static OutIndex getUpdaterOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_adamupdater_hpp
