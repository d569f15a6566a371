// The base of lowerings of MatMul. What derives from it has its own `grow`.
#ifndef popart_popx_op_matmulx_hpp
#define popart_popx_op_matmulx_hpp

#include <popart/popx/opx.hpp>

namespace popart {
namespace popx {

class MatMulOpx : public Opx {
 public:
  MatMulOpx(Op *op, Devicex *device) : Opx(op, device) {}
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_matmulx_hpp
