// Groups of replicas at equal distances, as a kind and a size.
#ifndef popart_commgroup_hpp
#define popart_commgroup_hpp

#include <popart/replicagrouping.hpp>

namespace popart {

enum class CommGroupType { All = 0, Consecutive = 1, Orthogonal = 2, None = 3, N = 4 };

class CommGroup {
 public:
  CommGroup() {}
  CommGroup(CommGroupType type, unsigned size) : type(type), replicaGroupSize(size) {}
  explicit CommGroup(const ReplicaGrouping &grouping);
  bool operator==(const CommGroup &other) const {
    return type == other.type && replicaGroupSize == other.replicaGroupSize;
  }
  bool operator!=(const CommGroup &other) const { return !(*this == other); }
  ReplicaGrouping toReplicaGrouping(unsigned numReplicas) const;

  CommGroupType type = CommGroupType::All;
  unsigned replicaGroupSize = 0;
};

std::ostream &operator<<(std::ostream &os, CommGroupType type);
std::ostream &operator<<(std::ostream &os, const CommGroup &group);

}  // namespace popart

#endif  // popart_commgroup_hpp
