#include "popart/op/collectives/collectives.hpp"

#include <string>

#include "popart/op/collectives/replicatedallreduce.hpp"
#include "popart/popx/devicex.hpp"
#include "popart/popx/op/collectives/replicatedallreducex.hpp"

namespace popart {

std::ostream& operator<<(std::ostream& os, const CollectiveOperator& op) {
  constexpr const char* kNames[] = {"Add",        "Mean",      "Mul",       "Min",   "Max",
                                    "LogicalAnd", "LogicalOr", "SquareAdd", "Local", "N"};
  return os << kNames[static_cast<int>(op)];
}

CollectivesBaseOp::CollectivesBaseOp(const OperatorIdentifier& opid,
                                     const ReplicaGrouping& grouping, const Op::Settings& settings)
    : Op(opid, settings), grouping_(grouping) {}
CollectivesBaseOp::CollectivesBaseOp(const OperatorIdentifier& opid, CommGroup group,
                                     const Op::Settings& settings)
    : Op(opid, settings),
      grouping_(group.toReplicaGrouping(static_cast<unsigned>(
          settings.getIr().getSessionOptions().getGlobalReplicationFactor()))) {}
CollectivesBaseOp::~CollectivesBaseOp() = default;

bool CollectivesBaseOp::hasCorrespondingLinkedIndexTensor(Tensor* tensor) {
  return hasCorrespondingLinkedIndexTensor(inIndex(tensor));
}
bool CollectivesBaseOp::isCollectiveLinkedIndexTensor(InIndex index) const {
  return index == getCollectiveLinkedIndex();
}
void CollectivesBaseOp::appendOutlineAttributes(OpSerialiserBase& serialiser) const {
  Op::appendOutlineAttributes(serialiser);
  serialiser.appendAttribute(sCollectiveReplicaGrouping, grouping_);
}

ReplicatedAllReduceOp::ReplicatedAllReduceOp(const OperatorIdentifier& opid, CollectiveOperator op,
                                             const ReplicaGrouping& grouping,
                                             const Op::Settings& settings)
    : CollectivesBaseOp(opid, grouping, settings), op(op) {}
std::unique_ptr<Op> ReplicatedAllReduceOp::clone() const {
  return std::unique_ptr<Op>(new ReplicatedAllReduceOp(*this));
}
void ReplicatedAllReduceOp::setup() { outInfo(getOutIndex()) = inInfo(getInIndex()); }
void ReplicatedAllReduceOp::appendOutlineAttributes(OpSerialiserBase& serialiser) const {
  CollectivesBaseOp::appendOutlineAttributes(serialiser);
  serialiser.appendAttribute(sCollectiveOperator, op);
}

namespace popx {

CollectivesBaseOpx::~CollectivesBaseOpx() = default;

gcl::CollectiveOperator getPoplarCollectiveOperator(CollectiveOperator op) {
  switch (op) {
    case CollectiveOperator::Add:
      return gcl::CollectiveOperator::ADD;
    case CollectiveOperator::Mean:
      return gcl::CollectiveOperator::MEAN;
    case CollectiveOperator::Mul:
      return gcl::CollectiveOperator::MUL;
    case CollectiveOperator::Min:
      return gcl::CollectiveOperator::MIN;
    case CollectiveOperator::Max:
      return gcl::CollectiveOperator::MAX;
    case CollectiveOperator::LogicalAnd:
      return gcl::CollectiveOperator::LOGICAL_AND;
    case CollectiveOperator::LogicalOr:
      return gcl::CollectiveOperator::LOGICAL_OR;
    case CollectiveOperator::SquareAdd:
      return gcl::CollectiveOperator::SQUARE_ADD;
    case CollectiveOperator::Local:
      return gcl::CollectiveOperator::LOCAL;
    default:
      throw error("The collective operator {} has no counterpart in GCL", op);
  }
}

gcl::CommGroup toGclCommGroup(const ReplicaGrouping& grouping) {
  const CommGroup group(grouping);
  if (group.type == CommGroupType::All) return gcl::CommGroup(gcl::CommGroupType::ALL, 0);
  const gcl::CommGroupType type = group.type == CommGroupType::Orthogonal
                                      ? gcl::CommGroupType::ORTHOGONAL
                                      : gcl::CommGroupType::CONSECUTIVE;
  return gcl::CommGroup(type, grouping.getGroupSize(), grouping.getStride());
}

void ReplicatedAllReduceOpx::grow(poplar::program::Sequence& program) const {
  const ReplicatedAllReduceOp& op = getOp<ReplicatedAllReduceOp>();
  setOutTensor(0, gcl::allReduceCrossReplica(topLevelGraph(), getInTensor(0),
                                             getPoplarCollectiveOperator(op.getCollectiveOp()),
                                             program, toGclCommGroup(op.getReplicaGrouping()),
                                             debugContext("replicatedAllReduce"),
                                             dv_p->lowering().gclOptions));
}

}  // namespace popx
}  // namespace popart
