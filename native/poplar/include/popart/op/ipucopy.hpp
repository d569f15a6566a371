// The op IpuCopy.
#ifndef popart_op_ipucopy_hpp
#define popart_op_ipucopy_hpp

#include <popart/op.hpp>

namespace popart {

class IpuCopyOp : public Op {
 public:
  using Op::Op;
  static OutIndex getOutIndex() { return 0; }
};

}  // namespace popart

#endif  // popart_op_ipucopy_hpp
