// Bases of lowerings of elementwise operations.
#ifndef popart_popx_op_elementwisex_hpp
#define popart_popx_op_elementwisex_hpp

#include <popart/popx/opx.hpp>

namespace popart {
namespace popx {

/// The computation of an elementwise op of one input.
class EwuComputex {
 public:
  EwuComputex() {}
  virtual ~EwuComputex();
  virtual poplar::Tensor outplace(poplar::program::Sequence &program, poplar::Graph &graph,
                                  const poplar::Tensor &tensor, const poplar::DebugNameAndId &name,
                                  const std::string &debugPrefix) const;
  virtual void inplace(poplar::program::Sequence &program, poplar::Graph &graph,
                       const poplar::Tensor &tensor, const poplar::DebugNameAndId &name,
                       const std::string &debugPrefix) const = 0;
  virtual poplar::Tensor reshape(const poplar::Tensor &tensor) const { return tensor; }
  poplar::Tensor cloneNcopy(poplar::program::Sequence &program, poplar::Graph &graph,
                            const poplar::Tensor &tensor, const poplar::DebugNameAndId &name) const;
  static poplar::Tensor coerceTo2D(const poplar::Tensor &tensor, int64_t axis);
};

/// Layouts go through it unchanged.
class ElementWiseUnaryOpx : public Opx {
 public:
  ElementWiseUnaryOpx(Op *op, Devicex *device) : Opx(op, device) {}
  InputCreatorType getInputCreatorType(InIndex index) const override;
  poplar::Tensor unwindTensorLayout(poplar::Tensor tensor, InIndex in, OutIndex out) const override;
  view::RegMap unwindRegion(InIndex in, OutIndex out) const override;
};

class ElementWiseUnaryOutplaceOpx : public ElementWiseUnaryOpx {
 public:
  ElementWiseUnaryOutplaceOpx(Op *op, Devicex *device, std::unique_ptr<EwuComputex> computex)
      : ElementWiseUnaryOpx(op, device), cx(std::move(computex)) {}
  void grow(poplar::program::Sequence &program) const final;

 private:
  std::unique_ptr<EwuComputex> cx;
};

class ElementWiseUnaryInplaceOpx : public ElementWiseUnaryOpx {
 public:
  ElementWiseUnaryInplaceOpx(Op *op, Devicex *device, std::unique_ptr<EwuComputex> computex)
      : ElementWiseUnaryOpx(op, device), cx(std::move(computex)) {}
  void grow(poplar::program::Sequence &program) const final;

 private:
  std::unique_ptr<EwuComputex> cx;
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_elementwisex_hpp
