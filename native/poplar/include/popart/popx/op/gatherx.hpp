// The base of lowerings of Gather. What derives from it has its own `grow`.
#ifndef popart_popx_op_gatherx_hpp
#define popart_popx_op_gatherx_hpp

#include <popart/popx/opx.hpp>

namespace popart {
namespace popx {

class GatherBaseOpx : public Opx {
 public:
  GatherBaseOpx(Op *op, Devicex *device) : Opx(op, device) {}
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_gatherx_hpp
