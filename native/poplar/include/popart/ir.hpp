// The graphs of a program.
#ifndef popart_ir_hpp
#define popart_ir_hpp

#include <popart/alias/aliasmodel.hpp>
#include <popart/dataflow.hpp>
#include <popart/graph.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/tensor.hpp>
#include <popart/util.hpp>

namespace popart {

class Optimizer;

namespace detail {

/// The front end that a program belongs to. It knows all tensors; graphs here have copies.
class FrontEnd {
 public:
  virtual ~FrontEnd();
  /// Adds the tensor of an id to a graph, if there is one.
  virtual void findTensor(Graph &graph, const TensorId &id) = 0;
  /// Takes note of an op that is connected and set up.
  virtual void created(Op &op) = 0;
};

}  // namespace detail

class Ir {
 public:
  enum class ExecutionMode { Inference, Training };
  enum class SerialiseFormat { JSON };

  Ir();
  Ir(const Ir &) = delete;
  Ir &operator=(const Ir &) = delete;
  ~Ir();

  const SessionOptions &getSessionOptions() const { return options_; }
  SessionOptions &getSessionOptions() { return options_; }
  void setUserOptions(const SessionOptions &options) { options_ = options; }
  ExecutionMode getExecutionMode() const { return mode_; }
  void setExecutionMode(ExecutionMode mode) { mode_ = mode; }
  bool isTraining() const { return mode_ == ExecutionMode::Training; }
  bool isTesting() const { return mode_ == ExecutionMode::Inference; }
  bool hasConstructedBackwards() const { return hasBackwards_; }
  void setConstructedBackwards() { hasBackwards_ = true; }
  bool virtualGraphsEnabled() const { return options_.virtualGraphMode != VirtualGraphMode::Off; }
  bool isAnchored(const TensorId &id) const { return dataFlow_.isAnchored(id); }
  const DataFlow &getDataFlow() const { return dataFlow_; }
  void setDataFlow(const DataFlow &dataFlow) { dataFlow_ = dataFlow; }
  const Patterns &getPatterns() const { return patterns_; }
  void setPatterns(const Patterns &patterns) { patterns_ = patterns; }
  uint64_t getId() const { return id_; }

  Graph &getMainGraph() { return getGraph(GraphId::root()); }
  const Graph &getMainGraph() const { return getGraph(GraphId::root()); }
  bool hasGraph(const GraphId &id) const { return graphs_.count(id) != 0; }
  Graph &getGraph(const GraphId &id) const;
  Graph &createGraph(const GraphId &id);
  std::vector<const Graph *> getAllGraphs() const;
  std::vector<Op *> getAllOps() const;
  const std::map<OpId, std::unique_ptr<Op>> &getMainGraphOps() const {
    return getMainGraph().getOps();
  }
  std::vector<Op *> opsOfType(const OperatorIdentifier &opid) const;
  std::vector<Op *> getOpSchedule(const OpsBeforeKey &before,
                                  RequireOptimalSchedule requireOptimal) const;
  Tensor *getTensor(const TensorId &id) const;
  bool containsTensor(const TensorId &id) const;
  const Optimizer &getOptimizer() const;
  /// Applies a pattern once to each op that it matches. Returns whether the graph has changed.
  bool applyPreAliasPattern(const PreAliasPattern *pattern, Graph &graph);
  /// Applies the patterns that are on until none changes the graph.
  void applyPreAliasPatterns(Graph &graph);
  void applyTransform(std::size_t transformId, Graph &graph);
  void serialise(SerialiseFormat format, std::stringstream &text, bool useScheduler = true) const;

  OpId getOpsCounter() const { return nextOp_; }
  OpId getAndIncrOpsCounter() { return nextOp_++; }
  TensorId createIntermediateTensorId(const TensorId &base);

  detail::FrontEnd *getFrontEnd() const { return frontEnd_.get(); }
  void setFrontEnd(std::unique_ptr<detail::FrontEnd> frontEnd) { frontEnd_ = std::move(frontEnd); }

 private:
  uint64_t id_;
  OpId nextOp_ = 100;
  int nextTensor_ = 0;
  ExecutionMode mode_ = ExecutionMode::Inference;
  bool hasBackwards_ = false;
  SessionOptions options_;
  DataFlow dataFlow_;
  Patterns patterns_;
  std::map<GraphId, std::unique_ptr<Graph>> graphs_;
  std::unique_ptr<detail::FrontEnd> frontEnd_;
};

}  // namespace popart

#endif  // popart_ir_hpp
