// Bases of lowerings of collectives.
#ifndef popart_popx_op_collectives_collectivesx_hpp
#define popart_popx_op_collectives_collectivesx_hpp

#include <popart/op/collectives/collectives.hpp>
#include <popart/popx/opx.hpp>

#include <gcl/Collectives.hpp>

namespace popart {
namespace popx {

class CollectivesBaseOpx : public Opx {
 public:
  CollectivesBaseOpx(Op *op, Devicex *device) : Opx(op, device) {}
  ~CollectivesBaseOpx() override;
};

/// The operator of GCL that stands for one of PopART. Throws error if there is none.
gcl::CollectiveOperator getPoplarCollectiveOperator(CollectiveOperator op);
/// The group of GCL that stands for a grouping of replicas.
gcl::CommGroup toGclCommGroup(const ReplicaGrouping &grouping);

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_collectives_collectivesx_hpp
