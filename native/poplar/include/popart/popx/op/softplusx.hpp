// The base of lowerings of Softplus. What derives from it has its own `grow`.
#ifndef popart_popx_op_softplusx_hpp
#define popart_popx_op_softplusx_hpp

#include <popart/popx/opx.hpp>

namespace popart {
namespace popx {

class SoftPlusOpx : public Opx {
 public:
  SoftPlusOpx(Op *op, Devicex *device) : Opx(op, device) {}
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_softplusx_hpp
