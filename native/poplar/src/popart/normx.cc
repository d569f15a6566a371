#include "popart/popx/op/normx.hpp"

#include "popops/ElementWise.hpp"

namespace popart::popx {

namespace pe = popops::expr;

NormOpx::~NormOpx() = default;

poplar::Tensor NormOpx::convertInvSdToVar(poplar::program::Sequence& program,
                                          const poplar::Tensor& invSd, float epsilon,
                                          const poplar::Type dstType) const {
  const auto square = pe::Mul(pe::Cast(pe::_1, poplar::FLOAT), pe::Cast(pe::_1, poplar::FLOAT));
  const auto variance = pe::Sub(pe::Divide(pe::Const(1.0f), square), pe::Const(epsilon));
  return popops::map(graph(), pe::Cast(variance, dstType), {invSd}, program,
                     debugContext("invSdToVar"));
}

poplar::Tensor NormOpx::convertVarToInvSd(poplar::program::Sequence& program,
                                          const poplar::Tensor& variance, float epsilon,
                                          const poplar::Type dstType) const {
  const auto sum = pe::Add(pe::Cast(pe::_1, poplar::FLOAT), pe::Const(epsilon));
  return popops::map(graph(), pe::Cast(pe::Rsqrt(sum), dstType), {variance}, program,
                     debugContext("varToInvSd"));
}

}  // namespace popart::popx
