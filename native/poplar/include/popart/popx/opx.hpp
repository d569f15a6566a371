// `Opx`: the base class of lowerings of operations to Poplar.
#ifndef popart_popx_opx_hpp
#define popart_popx_opx_hpp

#include <popart/graph.hpp>
#include <popart/op.hpp>
#include <popart/popx/inputcreatortype.hpp>
#include <popart/popx/viewchangers.hpp>
#include <popart/tensor.hpp>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popops/ExprOp.hpp>

namespace popart {
namespace popx {

class Devicex;

class Opx {
 public:
  Opx(Op *op, Devicex *device);
  Opx(const Opx &) = delete;
  Opx &operator=(const Opx &) = delete;
  virtual ~Opx();

  Op *op_p;
  double inputCreatorPriority{0.0};

  // What lowerings override.
  virtual void grow(poplar::program::Sequence &program) const;
  virtual void grow(std::vector<poplar::program::Sequence> &programs) const;
  virtual InputCreatorType getInputCreatorType(InIndex index) const;
  virtual poplar::Tensor createInput(InIndex index, const poplar::DebugNameAndId &name) const;
  virtual poplar::Tensor createInputTensor(InIndex index, const poplar::DebugNameAndId &name) const;
  virtual std::set<TensorId> mustExistBeforeCreate(InIndex index) const;
  virtual DnfTensorIds mustExistBeforeCreateDNF(InIndex index) const;
  virtual poplar::Tensor unwindTensorLayout(poplar::Tensor tensor, InIndex in, OutIndex out) const;
  virtual view::RegMap unwindRegion(InIndex in, OutIndex out) const;
  virtual bool canUnwind(InIndex in, OutIndex out) const;
  virtual bool createsEquiv(int index, const Opx *other, int otherIndex) const;
  virtual bool outputCreatedExternally(OutIndex index) const;
  virtual bool hasCreatorViewChangers(InIndex index) const;
  virtual ViewChangers getCreatorViewChangers(InIndex index) const;

  // Tensors.
  const poplar::Tensor &getInTensor(InIndex index) const;
  const poplar::Tensor &getOutTensor(OutIndex index) const;
  const poplar::Tensor &getInView(InIndex index) const;
  const poplar::Tensor &getOutView(OutIndex index) const;
  void setOutTensor(OutIndex index, const poplar::Tensor &tensor) const;
  const poplar::Tensor &get(TensorId id) const;
  const poplar::Tensor &getView(TensorId id) const;
  void insert(TensorId id, const poplar::Tensor &tensor) const;
  bool hasInViewChangers(InIndex index) const;
  const ViewChangers &getInViewChangers(InIndex index) const;
  void setOutViewChangers(OutIndex index, const ViewChangers &changers) const;
  poplar::Tensor cloneNcopy(poplar::program::Sequence &program, TensorId id) const;
  poplar::Tensor cloneNcopy(poplar::program::Sequence &program, const poplar::Tensor &tensor,
                            const std::string name = "") const;
  /// Applies a binary operator. Neither input changes, so the result is always a new tensor.
  poplar::Tensor mapMaybeInPlace(popops::expr::BinaryOpType type, poplar::Tensor &a,
                                 poplar::Tensor &b, poplar::program::Sequence &program,
                                 const poplar::DebugContext &context = {},
                                 const poplar::OptionFlags &options = {},
                                 const std::string &name = "") const;
  poplar::Tensor broadcast(const std::vector<int64_t> &shape, TensorId id) const;
  poplar::Tensor broadcast(const std::vector<int64_t> &shape, poplar::Tensor tensor) const;
  poplar::Tensor getConst(const poplar::Type &type, const std::vector<size_t> &shape, double value,
                          const std::string &name) const;
  poplar::Tensor getScalarVariable(const poplar::Type &type, const std::string &name) const;
  poplar::Tensor getZerosTensor(std::vector<size_t> shape, poplar::Type type,
                                std::string name) const;

  // The op.
  bool hasInput(InIndex index) const { return op_p->hasInput(index); }
  bool hasOutput(OutIndex index) const { return op_p->hasOutput(index); }
  TensorId inId(InIndex index) const { return op_p->inId(index); }
  TensorId outId(OutIndex index) const { return op_p->outId(index); }
  Tensor *inTensor(InIndex index) const { return op_p->inTensor(index); }
  Tensor *outTensor(OutIndex index) const { return op_p->outTensor(index); }
  const TensorInfo &inInfo(InIndex index) const { return op_p->inInfo(index); }
  const TensorInfo &outInfo(OutIndex index) const { return op_p->outInfo(index); }
  const Shape &inShape(InIndex index) const { return op_p->inShape(index); }
  const Shape &outShape(OutIndex index) const { return op_p->outShape(index); }
  std::vector<size_t> inShapeSzt(InIndex index) const { return inInfo(index).shape_szt(); }
  std::vector<size_t> outShapeSzt(OutIndex index) const { return outInfo(index).shape_szt(); }

  template <class OP>
  OP &getOp() const {
    OP *op = dynamic_cast<OP *>(op_p);
    if (op == nullptr) throw error("Failed to cast to op in Opx: {}", op_p->debugName());
    return *op;
  }
  template <class OP>
  void verifyOp(Op *op, const OperatorIdentifier &opid) {
    if (op->opid.domain != opid.domain || op->opid.type != opid.type) wrongOp(op, {opid});
  }
  template <class OP>
  void verifyOp(Op *op, std::vector<OperatorIdentifier> opids) {
    for (const OperatorIdentifier &opid : opids) {
      if (op->opid == opid) return;
    }
    wrongOp(op, opids);
  }
  template <class OP>
  void verifyOp(Op *op) {
    if (!op->isConvertibleTo<OP>()) wrongOp(op, {});
  }

  // The graph.
  virtual poplar::Graph &graph() const;
  poplar::Graph &topLevelGraph() const;
  virtual poplar::Graph &srcGraph(InIndex) const { return graph(); }
  virtual poplar::Graph &dstGraph(OutIndex) const { return graph(); }
  poplar::Graph &inGraph(InIndex) const { return graph(); }
  poplar::Graph &outGraph(OutIndex) const { return graph(); }
  VGraphId getVirtualGraphId() const;
  Devicex *getDevicex() const { return dv_p; }

  // Names.
  poplar::DebugContext debugContext(
      const std::string name = "",
      poplar::SourceLocation location = poplar::SourceLocation::Current()) const;
  poplar::DebugNameAndId getDebugNameAndId(const std::string name = "") const;
  const popart::DebugInfo &getDebugInfo() const { return op_p->getDebugInfo(); }

 protected:
  Devicex *dv_p;

 private:
  [[noreturn]] static void wrongOp(const Op *op, const std::vector<OperatorIdentifier> &opids);
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_opx_hpp
