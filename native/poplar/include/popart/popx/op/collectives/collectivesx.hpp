// Bases of lowerings of collectives.
#ifndef popart_popx_op_collectives_collectivesx_hpp
#define popart_popx_op_collectives_collectivesx_hpp

#include <popart/op/collectives/collectives.hpp>
#include <popart/popx/opx.hpp>

#include <gcl/Collectives.hpp>

namespace gcl {
class CollectiveBalancedReorder;
}  // namespace gcl

namespace popart {
namespace popx {

class CollectivesBaseOpx : public Opx {
 public:
  CollectivesBaseOpx(Op *op, Devicex *device) : Opx(op, device) {}
  ~CollectivesBaseOpx() override;
  /// Null: tensors that replicas share have their elements in order.
  gcl::CollectiveBalancedReorder *getCollectiveBalancedReorder(
      ReplicatedTensorShardingIndicesIndex) const {
    return nullptr;
  }
};

/// The view of a tensor of which each replica of a group has a part: its elements in order.
class ReplicatedGatherInScatterOutViewChanger : public ViewChanger {
 public:
  ReplicatedGatherInScatterOutViewChanger(int64_t nelms, ReplicatedTensorShardingIndicesIndex group)
      : nelms_(nelms), group_(group) {}
  bool containsAllDataRegions() const final { return false; }
  poplar::Tensor apply(poplar::Tensor tensor) const final {
    return tensor.flatten().slice(0, static_cast<std::size_t>(nelms_), 0);
  }
  bool operator==(const ViewChanger &other) const final {
    const auto *changer = dynamic_cast<const ReplicatedGatherInScatterOutViewChanger *>(&other);
    return changer != nullptr && changer->nelms_ == nelms_ && changer->group_ == group_;
  }

 private:
  int64_t nelms_;
  ReplicatedTensorShardingIndicesIndex group_;
};

/// The operator of GCL that stands for one of PopART. Throws error if there is none.
gcl::CollectiveOperator getPoplarCollectiveOperator(CollectiveOperator op);
/// The group of GCL that stands for a grouping of replicas.
gcl::CommGroup toGclCommGroup(const ReplicaGrouping &grouping);

}  // namespace popx
}  // namespace popart

#endif  // popart_popx_op_collectives_collectivesx_hpp
