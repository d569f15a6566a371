// The lowering of ReplicatedAllReduce.
#ifndef popart_popx_op_collectives_replicatedallreducex_hpp
#define popart_popx_op_collectives_replicatedallreducex_hpp

#include <popart/popx/op/collectives/collectivesx.hpp>

namespace popart {
namespace popx {

class ReplicatedAllReduceOpx : public CollectivesBaseOpx {
 public:
  ReplicatedAllReduceOpx(Op *op, Devicex *device) : CollectivesBaseOpx(op, device) {}
  void grow(poplar::program::Sequence &program) const override;
};

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_collectives_replicatedallreducex_hpp
