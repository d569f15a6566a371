// The op ReplicatedAllReduce.
#ifndef popart_op_collectives_replicatedallreduce_hpp
#define popart_op_collectives_replicatedallreduce_hpp

#include <popart/op/collectives/collectives.hpp>

namespace popart {

class ReplicatedAllReduceOp : public CollectivesBaseOp {
 public:
  ReplicatedAllReduceOp(const OperatorIdentifier &opid, CollectiveOperator op,
                        const ReplicaGrouping &grouping, const Op::Settings &settings);
  std::unique_ptr<Op> clone() const override;
  void setup() override;
  float getSubgraphValue() const final { return getHighSubgraphValue(); }
  void appendOutlineAttributes(OpSerialiserBase &serialiser) const override;
  CollectiveOperator getCollectiveOp() const { return op; }

 protected:
  CollectiveOperator op;
};

}  // namespace popart

#endif  // popart_op_collectives_replicatedallreduce_hpp
