// `Op`: the base class of operations.
#ifndef popart_op_hpp
#define popart_op_hpp

#include <popart/alias/aliasmodel.hpp>
#include <popart/attributes.hpp>
#include <popart/basicoptionals.hpp>
#include <popart/commgroup.hpp>
#include <popart/datatype.hpp>
#include <popart/debugcontext.hpp>
#include <popart/error.hpp>
#include <popart/logging.hpp>
#include <popart/names.hpp>
#include <popart/operatoridentifier.hpp>
#include <popart/opserialiser.hpp>
#include <popart/region.hpp>
#include <popart/replicagrouping.hpp>
#include <popart/scope.hpp>
#include <popart/tensorindex.hpp>
#include <popart/tensorinfo.hpp>
#include <popart/tensorlocation.hpp>
#include <popart/util.hpp>
#include <popart/vertex.hpp>

namespace popart {

class Graph;
class Ir;
class Op;
class Tensor;

enum class RecomputeType { Undefined = 0, Checkpoint, Recompute, Recomputed };
enum class ExecutionContext {
  Normal = 0,
  AccumulateOuterFragment,
  WeightsFromHostFragment,
  WeightsToHostFragment,
  OptimizerFromHostFragment,
  Subgraph
};
enum class ReductionType { Sum = 0, Mean, NoReduction, N };
enum class GradOpInType { In = 0, Out, GradOut };

std::ostream &operator<<(std::ostream &os, const RecomputeType &type);
std::ostream &operator<<(std::ostream &os, const ExecutionContext &context);
std::ostream &operator<<(std::ostream &os, const ReductionType &type);
std::ostream &operator<<(std::ostream &os, const GradOpInType &type);

/// Says that input `iGrad` of a gradient op is an input, an output or the gradient of an output of
/// the forward op: that of index `iNonGrad`.
class GradInOutMapper {
 public:
  GradInOutMapper(InIndex iGrad, int iNonGrad, GradOpInType type)
      : iGrad(iGrad), iNonGrad(iNonGrad), type(type) {}
  bool operator==(const GradInOutMapper &other) const {
    return iGrad == other.iGrad && iNonGrad == other.iNonGrad && type == other.type;
  }

  InIndex iGrad;
  int iNonGrad;
  GradOpInType type;
};

struct POpCmp {
  bool operator()(const Op *a, const Op *b) const;
};
using OpSet = std::set<Op *, POpCmp>;

/// An operation of a graph.
class Op : public Vertex {
 public:
  /// Where and how an op runs.
  struct Settings {
    Settings(Graph &graph, const std::string &name);
    Settings(Graph &graph, const std::string &name, const Scope &scope);
    Settings(Graph &graph, const std::string &name, const Scope &scope, uint64_t parentId);
    Settings(Graph &graph, const std::string &name, uint64_t parentId);
    Settings(const Settings &);
    Settings &operator=(const Settings &);
    virtual ~Settings();

    Settings copy(const std::string &newName) const;
    virtual void setFromAttributes(const Attributes &attributes);
    Ir &getIr() const;

    std::reference_wrapper<Graph> graph;
    std::string name;
    Scope scope;
    RecomputeType recomputeType = RecomputeType::Undefined;
    OptionalTensorLocation tensorLocation;
    std::vector<std::tuple<std::string, float>> inplacePriorityVeto;
    std::unordered_set<std::string> excludePatterns;
    OptionalVGraphId vgraphId;
    OptionalPipelineStage pipelineStage;
    OptionalExecutionPhase executionPhase;
    OptionalBatchSerializedPhase batchSerializedPhase;
    OptionalStochasticRoundingMethod stochasticRoundingMethod;
    TileSet tileSet = TileSet::Compute;
    ExecutionContext executionContext = ExecutionContext::Normal;
    std::map<InIndex, InIndex> inferTensorMappingToFrom;
    double schedulePriority = 0.0;
    std::map<std::string, std::string> extraOutlineAttributes;
    uint64_t debugInfoId = 0;
    bool optimizerOp = false;
    bool gradientClippingOp = false;
  };

  Op(const OperatorIdentifier &opid, const Op::Settings &settings);
  /// A copy that is connected to nothing.
  Op(const Op &op);
  Op &operator=(const Op &) = delete;
  ~Op() override;

  // Connections.
  virtual void connectInTensor(InIndex index, TensorId id);
  virtual void connectInTensor(InIndex index, TensorId id, VGraphId vgid);
  void connectInTensorLike(const Op *other, InIndex index, TensorId id);
  void connectOutTensor(OutIndex index, TensorId id);
  void createAndConnectOutTensor(OutIndex index, TensorId id);
  virtual void disconnectInTensor(InIndex index, Tensor *tensor);
  void disconnectInTensor(Tensor *tensor);
  void disconnectInTensor(InIndex index);
  void disconnectOutTensor(Tensor *tensor);
  void disconnectAllInputs();
  void disconnectAllOutputs();

  TensorInfo &inInfo(InIndex index);
  const TensorInfo &inInfo(InIndex index) const;
  TensorInfo &outInfo(OutIndex index);
  const TensorInfo &outInfo(OutIndex index) const;
  const Shape &inShape(InIndex index) const { return inInfo(index).shape(); }
  const Shape &outShape(OutIndex index) const { return outInfo(index).shape(); }
  Rank inRank(InIndex index) const { return inInfo(index).rank(); }
  Rank outRank(OutIndex index) const { return outInfo(index).rank(); }
  Tensor *inTensor(InIndex index);
  const Tensor *inTensor(InIndex index) const;
  Tensor *outTensor(OutIndex index);
  const Tensor *outTensor(OutIndex index) const;
  TensorId inId(InIndex index) const;
  TensorId outId(OutIndex index) const;
  bool hasInput(InIndex index) const { return input->hasIndex(index); }
  bool hasOutput(OutIndex index) const { return output->hasIndex(index); }
  size_t inTensorCount() const { return static_cast<size_t>(input->n()); }
  size_t outTensorCount() const { return static_cast<size_t>(output->n()); }
  InIndex inIndex(Tensor *tensor) const { return input->indices(tensor)[0]; }
  OutIndex outIndex(Tensor *tensor) const { return output->indices(tensor)[0]; }

  // Where it belongs.
  Graph &getGraph() { return settings.graph.get(); }
  const Graph &getGraph() const { return settings.graph.get(); }
  Ir &getIr();
  const Ir &getIr() const;
  Settings &getSettings() { return settings; }
  const Settings &getSettings() const { return settings; }
  virtual Settings getInSettings(InIndex index) const;
  virtual Settings getOutSettings(OutIndex index) const;
  const Scope &getScope() const { return settings.scope; }
  void setScope(const Scope &scope) { settings.scope = scope; }
  const std::string &getName() const { return settings.name; }
  void setName(const std::string &name) { settings.name = name; }
  const std::string &name() const { return settings.name; }
  std::string str() const override;
  std::string debugName() const;
  const OpDebugInfo &getDebugInfo() const { return debugInfo; }

  bool hasVirtualGraphId() const { return static_cast<bool>(settings.vgraphId); }
  VGraphId getVirtualGraphId() const;
  OptionalVGraphId getOptionalVGraphId() const { return settings.vgraphId; }
  void setVirtualGraphId(const OptionalVGraphId &id) { settings.vgraphId = id; }
  bool hasPipelineStage() const { return static_cast<bool>(settings.pipelineStage); }
  PipelineStage getPipelineStage() const { return *settings.pipelineStage; }
  OptionalPipelineStage getOptionalPipelineStage() const { return settings.pipelineStage; }
  void setPipelineStage(OptionalPipelineStage stage) { settings.pipelineStage = stage; }
  bool hasExecutionPhase() const { return static_cast<bool>(settings.executionPhase); }
  ExecutionPhase getExecutionPhase() const { return *settings.executionPhase; }
  OptionalExecutionPhase getOptionalExecutionPhase() const { return settings.executionPhase; }
  void setExecutionPhase(const OptionalExecutionPhase &phase) { settings.executionPhase = phase; }
  bool hasBatchSerializedPhase() const { return static_cast<bool>(settings.batchSerializedPhase); }
  BatchSerializedPhase getBatchSerializedPhase() const { return *settings.batchSerializedPhase; }
  OptionalBatchSerializedPhase getOptionalBatchSerializedPhase() const {
    return settings.batchSerializedPhase;
  }
  void setBatchSerializedPhase(const OptionalBatchSerializedPhase &phase) {
    settings.batchSerializedPhase = phase;
  }
  bool hasStochasticRoundingMethod() const {
    return static_cast<bool>(settings.stochasticRoundingMethod);
  }
  StochasticRoundingMethod getStochasticRoundingMethod() const {
    return *settings.stochasticRoundingMethod;
  }
  void setStochasticRoundingMethod(const OptionalStochasticRoundingMethod &method) {
    settings.stochasticRoundingMethod = method;
  }
  void transferBaseProperties(Op *to);

  VGraphId getIntrospectionInVirtualGraphId(InIndex index) const;
  VGraphId getIntrospectionOutVirtualGraphId(OutIndex index) const;
  virtual VGraphIdAndTileSet getIntrospectionInVirtualGraphId(InIndex index,
                                                              std::set<OpId> &visited) const;
  virtual VGraphIdAndTileSet getIntrospectionOutVirtualGraphId(OutIndex index,
                                                               std::set<OpId> &visited) const;

  // What operations override.
  virtual std::unique_ptr<Op> clone() const = 0;
  virtual float getSubgraphValue() const = 0;
  virtual void setup();
  virtual std::vector<std::unique_ptr<Op>> getGradOps();
  virtual const std::vector<GradInOutMapper> &gradInputInfo() const;
  virtual const std::map<int, int> &gradOutToNonGradIn() const;
  virtual int getNonGradInIndex(int gradOpOutIndex) const;
  virtual void appendAttributes(OpSerialiserBase &serialiser) const;
  virtual void appendOutlineAttributes(OpSerialiserBase &serialiser) const;
  virtual void appendMore(OpSerialiserBase &serialiser) const;
  virtual bool requiresRandomSeed() const { return false; }
  virtual InIndex getSeedInIndex() const;
  virtual bool isOutlineable() const { return true; }
  virtual bool hasSideEffect() const { return false; }
  virtual bool canRecompute() const { return !hasSideEffect(); }
  virtual bool isNorm() const { return false; }
  virtual bool isElementWiseUnary() const { return false; }
  virtual bool isLossOp() const { return false; }
  virtual bool isIpuCopyOp() const { return false; }
  virtual bool isOptimizerOp() const { return settings.optimizerOp; }
  virtual bool copiesOptimizerTensors() const { return false; }
  virtual bool canBeReplacedByIdentity() const { return false; }
  virtual std::vector<std::tuple<OperatorIdentifier, float>> inplacePriorityDefault() const;
  virtual std::unique_ptr<Op> getInplaceVariant(const OperatorIdentifier &opid) const;
  virtual view::Regions modifies(InIndex index) const;
  virtual view::Regions uses(InIndex index) const;
  virtual view::Regions aliases(InIndex in, OutIndex out) const;
  virtual view::RegMap fwdRegMap(InIndex in, OutIndex out) const;
  virtual view::RegMap bwdRegMap(InIndex in, OutIndex out) const;
  virtual bool isInplaceViewChange() const { return false; }
  virtual bool isOutplaceViewChange() const { return false; }
  virtual void growAliasModel(AliasModel &model) const;
  virtual poprithms::memory::inplace::Proposal mapInplaceProposal(const AliasModel &model,
                                                                  OperatorIdentifier opid) const;
  virtual ReplicatedTensorShardingIndices getReplicatedTensorShardingIndices() const;
  virtual void configureForReplicatedTensorSharding(ReplicatedTensorShardingIndices indices,
                                                    const ReplicaGrouping &grouping);
  virtual void configureForReplicatedTensorSharding(ReplicatedTensorShardingIndices indices,
                                                    CommGroup shardingDomain);
  virtual bool canShard() const { return false; }
  virtual ReductionType getShardReductionType(OutIndex index) const;
  virtual float getShardRescaleFactor(Op *shardedOp, OutIndex index) const;
  virtual void configureShardedOp(Op *shardedOp, const Settings *settings) const;
  virtual int getInBatchAxis(InIndex) const { return 0; }
  virtual int getOutBatchAxis(OutIndex) const { return 0; }
  virtual std::set<InIndex> optionalInputs() const;
  virtual std::vector<const Graph *> getCalledGraphs() const;
  virtual float calcAutoVirtualGraphCost(std::set<int> &inputsSeen);

  // Questions about what they say.
  bool doesAlias() const;
  bool doesAlias(InIndex in, OutIndex out) const;
  bool isOutplace() const { return !doesAlias(); }
  bool modifies() const;
  bool modifiesIndex(InIndex index) const;
  bool modifiesTensor(Tensor *tensor) const;
  bool overwritesTensor(Tensor *tensor) const;
  bool isParentOf(const Op *op) const;
  bool isChildOf(const Op *op) const;
  int64_t memOfOutputs() const;
  std::string getSubgraphEquivId() const;

  template <typename T>
  bool isConvertibleTo() const {
    return dynamic_cast<const T *>(this) != nullptr;
  }
  template <typename T>
  T *getPrecedingOp(InIndex index) {
    return dynamic_cast<T *>(producerOf(index));
  }
  template <typename T>
  std::vector<T *> getFollowingOps(OutIndex index = 0) {
    std::vector<T *> found;
    for (Op *op : consumersOf(index)) {
      T *converted = dynamic_cast<T *>(op);
      if (converted != nullptr) found.push_back(converted);
    }
    return found;
  }
  template <typename T>
  T *getFollowingOp(OutIndex index = 0) {
    std::vector<T *> found = getFollowingOps<T>(index);
    if (found.empty()) throw error("{} has no such op after it", debugName());
    return found.front();
  }

  /// The weight of ops that are worth to be outlined, and of others.
  float getHighSubgraphValue() const { return 1000.0f; }
  float getLowSubgraphValue() const { return 0.1f; }

  std::vector<int64_t> prettyNpOut(const Shape &s0, const Shape &s1);
  TensorInfo prettyNpOut(const TensorInfo &i0, const TensorInfo &i1, bool checkDataType = true);

  std::unique_ptr<TensorIndexMap> input;
  std::unique_ptr<TensorIndexMap> output;
  OpId id = -1;
  OperatorIdentifier opid;
  bool pruneable = true;
  Settings settings;
  OpDebugInfo debugInfo;

 protected:
  void defaultConnectInTensor(InIndex index, TensorId id);
  poprithms::memory::inplace::Proposal mapInplaceProposalGate0(const AliasModel &model,
                                                               OperatorIdentifier opid) const;
  void getInTensorData(TensorId id, std::vector<int64_t> &data,
                       std::vector<DataType> dataTypes = {DataType::INT64, DataType::INT32});

 private:
  Op *producerOf(InIndex index) const;
  std::vector<Op *> consumersOf(OutIndex index) const;
};

}  // namespace popart

#endif  // popart_op_hpp
