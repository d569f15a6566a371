// Collectives of replicas.
#ifndef popart_op_collectives_collectives_hpp
#define popart_op_collectives_collectives_hpp

#include <popart/commgroup.hpp>
#include <popart/op.hpp>
#include <popart/replicagrouping.hpp>

namespace popart {

enum class CollectiveOperator {
  Add = 0,
  Mean,
  Mul,
  Min,
  Max,
  LogicalAnd,
  LogicalOr,
  SquareAdd,
  Local,
  N
};

std::ostream &operator<<(std::ostream &os, const CollectiveOperator &op);

/// The base of ops in which replicas of a group exchange tensors.
class CollectivesBaseOp : public Op {
 public:
  CollectivesBaseOp(const OperatorIdentifier &opid, const ReplicaGrouping &grouping,
                    const Op::Settings &settings);
  CollectivesBaseOp(const OperatorIdentifier &opid, CommGroup group, const Op::Settings &settings);
  ~CollectivesBaseOp() override;

  static InIndex getInIndex() { return 0; }
  static InIndex getCollectiveLinkedIndex() { return 1; }
  static OutIndex getOutIndex() { return 0; }
  static ReplicatedTensorShardingIndicesIndex getDefaultTensorShardingGroupIndex() { return 0; }

  const ReplicaGrouping &getReplicaGrouping() const { return grouping_; }
  void setReplicaGrouping(const ReplicaGrouping &grouping) { grouping_ = grouping; }
  virtual int64_t getCommSize() const { return grouping_.getGroupSize(); }
  virtual bool isConfigureOutputForReplicatedTensorSharding() const { return false; }
  virtual bool hasCorrespondingLinkedIndexTensor(Tensor *tensor);
  bool hasCorrespondingLinkedIndexTensor(InIndex index) { return hasInput(index + 1); }
  virtual bool isCollectiveLinkedIndexTensor(InIndex index) const;
  void appendOutlineAttributes(OpSerialiserBase &serialiser) const override;

 private:
  ReplicaGrouping grouping_;
};

}  // namespace popart

#endif  // popart_op_collectives_collectives_hpp
