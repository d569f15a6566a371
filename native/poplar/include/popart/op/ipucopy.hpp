// The op IpuCopy.
#ifndef popart_op_ipucopy_hpp
#define popart_op_ipucopy_hpp

#include <popart/detail/builtinop.hpp>

namespace popart {

class IpuCopyOp : public detail::BuiltInOp {
 public:
  using BuiltInOp::BuiltInOp;
  static OutIndex getOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_ipucopy_hpp
