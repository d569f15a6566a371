// The device that ops are lowered for.
#ifndef popart_popx_devicex_hpp
#define popart_popx_devicex_hpp

#include <popart/popx/irlowering.hpp>

#include <poplar/Engine.hpp>
#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>

namespace popart {
namespace popx {

/// The type of Poplar that holds elements of a type. Throws error if there is none.
poplar::Type popType(DataType type);
poplar::Type popType(const TensorInfo &info);

class Devicex {
 public:
  explicit Devicex(IrLowering &lowering) : lowering_(lowering) {}

  IrLowering &lowering() { return lowering_; }
  const IrLowering &lowering() const { return lowering_; }
  const Ir &ir() const { return lowering_.ir(); }
  unsigned getReplicationFactor() const { return lowering_.getReplicationFactor(); }
  unsigned getGlobalReplicationFactor() const { return lowering_.getGlobalReplicationFactor(); }

  poplin::PlanningCache convCache;
  poplin::matmul::PlanningCache matmulCache;

 private:
  IrLowering &lowering_;
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_devicex_hpp
