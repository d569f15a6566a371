// Graphs of ops and tensors.
#ifndef popart_graph_hpp
#define popart_graph_hpp

#include <popart/graphid.hpp>
#include <popart/op.hpp>
#include <popart/scheduler_requireoptimal.hpp>
#include <popart/tensor.hpp>
#include <popart/tensors.hpp>
#include <popart/topocons.hpp>

namespace popart {

class Ir;

class Graph {
 public:
  Graph(Ir &ir, const GraphId &id);
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;
  ~Graph();

  const GraphId id;
  std::unique_ptr<TopoCons> topoCons;

  /// Makes an op that is connected to nothing.
  template <typename OP, typename... Args>
  OP *createOp(Args &&...args) {
    OP *op = new OP(std::forward<Args>(args)...);
    moveIntoGraph(std::unique_ptr<Op>(op));
    return op;
  }

  /// Makes an op, connects it and sets it up. Outputs that do not exist are made.
  template <typename OP, typename... Args>
  OP *createConnectedOp(const std::map<InIndex, TensorId> &in,
                        const std::map<OutIndex, TensorId> &out, Args &&...args) {
    OP *op = createOp<OP>(std::forward<Args>(args)...);
    connect(op, in, out);
    return op;
  }

  OpId moveIntoGraph(std::unique_ptr<Op> op);
  /// Connects an op of the graph and sets it up. If that fails, the op is gone.
  void connect(Op *op, const std::map<InIndex, TensorId> &in,
               const std::map<OutIndex, TensorId> &out);
  void eraseOp(OpId id);
  Op *getOp(OpId id) const;
  Op *getOpUnsafe(OpId id) const;
  const std::map<OpId, std::unique_ptr<Op>> &getOps() const { return ops_; }
  std::map<OpId, std::unique_ptr<Op>> &getOps() { return ops_; }
  std::vector<OpId> getOpIds() const;
  std::vector<Op *> getOpSchedule(const OpsBeforeKey &before,
                                  RequireOptimalSchedule requireOptimal) const;

  Tensors &getTensors() { return tensors_; }
  const Tensors &getTensors() const { return tensors_; }
  Tensor *getTensor(const TensorId &id) { return tensors_.get(id); }
  const Tensor *getTensor(const TensorId &id) const { return tensors_.get(id); }
  void addActGrad(const TensorId &id) { tensors_.addActGrad(id); }
  void addConstInit(const TensorId &id, const TensorInfo &info, const void *data,
                    const DebugContext &debugContext) {
    tensors_.addConstInit(id, info, data, debugContext);
  }
  void addVarInit(const TensorId &id, const TensorInfo &info, const void *data,
                  const DebugContext &debugContext) {
    tensors_.addVarInit(id, info, data, debugContext);
  }
  void addStream(const TensorId &id, const TensorInfo &info, const DebugContext &debugContext) {
    tensors_.addStream(id, info, debugContext);
  }
  void addInput(const TensorId &id, const TensorInfo &info);
  void markAsInput(const TensorId &id) { inputs_.push_back(id); }
  void markAsOutput(const TensorId &id) { outputs_.push_back(id); }
  const std::vector<TensorId> &getInputIds() const { return inputs_; }
  const std::vector<TensorId> &getOutputIds() const { return outputs_; }
  TensorId getInputId(InIndex index) const { return inputs_.at(index); }
  TensorId getOutputId(OutIndex index) const { return outputs_.at(index); }
  bool hasInputId(const TensorId &id) const;
  bool hasOutputId(const TensorId &id) const;
  void replaceTensor(const TensorId &oldId, const TensorId &newId);
  void removeIsolatedTensors(bool retainUsedIOTensors = false);

  Ir &getIr() { return ir_; }
  const Ir &getIr() const { return ir_; }
  Scope getScope() const;
  std::string getGraphString() const;
  TensorId getLoss() const { return loss_; }
  void setLoss(const TensorId &loss) { loss_ = loss; }

 private:
  Ir &ir_;
  Tensors tensors_;
  std::map<OpId, std::unique_ptr<Op>> ops_;
  std::vector<TensorId> inputs_, outputs_;
  TensorId loss_;
};

}  // namespace popart

#endif  // popart_graph_hpp
