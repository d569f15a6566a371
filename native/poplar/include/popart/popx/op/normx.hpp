// The base of lowerings of norms.
#ifndef popart_popx_op_normx_hpp
#define popart_popx_op_normx_hpp

#include <popart/popx/opx.hpp>

namespace popart {
namespace popx {

class NormOpx : public Opx {
 public:
  NormOpx(Op *op, Devicex *device) : Opx(op, device) {}
  ~NormOpx() override;

 protected:
  /// The variance that an inverse standard deviation stands for, and the other way round.
  poplar::Tensor convertInvSdToVar(poplar::program::Sequence &program, const poplar::Tensor &invSd,
                                   float epsilon, const poplar::Type dstType = poplar::FLOAT) const;
  poplar::Tensor convertVarToInvSd(poplar::program::Sequence &program,
                                   const poplar::Tensor &variance, float epsilon,
                                   const poplar::Type dstType = poplar::FLOAT) const;
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_normx_hpp
