// The op ReplicatedAllGather.
#ifndef popart_op_collectives_replicatedallgather_hpp
#define popart_op_collectives_replicatedallgather_hpp

#include <popart/op/collectives/collectives.hpp>

namespace popart {

class ReplicatedAllGatherOp : public CollectivesBaseOp {
 public:
  using CollectivesBaseOp::CollectivesBaseOp;
};

}  // namespace popart

#endif  // popart_op_collectives_replicatedallgather_hpp
