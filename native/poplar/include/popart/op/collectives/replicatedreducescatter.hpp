// The op ReplicatedReduceScatter.
#ifndef popart_op_collectives_replicatedreducescatter_hpp
#define popart_op_collectives_replicatedreducescatter_hpp

#include <popart/op/collectives/collectives.hpp>

namespace popart {

class ReplicatedReduceScatterOp : public CollectivesBaseOp {
 public:
  using CollectivesBaseOp::CollectivesBaseOp;
};

}  // namespace popart

#endif  // popart_op_collectives_replicatedreducescatter_hpp
