// Groups of replicas: those at a stride of each other.
#ifndef popart_replicagrouping_hpp
#define popart_replicagrouping_hpp

#include <popart/error.hpp>

namespace popart {

class ReplicaGrouping {
 public:
  ReplicaGrouping(unsigned numReplicas, unsigned stride, unsigned groupSize);
  explicit ReplicaGrouping(unsigned numReplicas);

  unsigned getNumReplicas() const { return numReplicas_; }
  unsigned getStride() const { return stride_; }
  unsigned getGroupSize() const { return groupSize_; }
  unsigned getNumGroups() const { return numReplicas_ / groupSize_; }
  unsigned getGroupAt(unsigned replica) const;
  unsigned getIndexInGroupAt(unsigned replica) const;
  unsigned getReplicaAt(unsigned group, unsigned index = 0) const;
  std::vector<unsigned> getReplicasAt(unsigned group) const;
  ReplicaGrouping getTranspose() const;
  std::string str() const;

  bool operator==(const ReplicaGrouping &other) const {
    return numReplicas_ == other.numReplicas_ && stride_ == other.stride_ &&
           groupSize_ == other.groupSize_;
  }
  bool operator!=(const ReplicaGrouping &other) const { return !(*this == other); }

 private:
  unsigned numReplicas_, stride_, groupSize_;
};

std::ostream &operator<<(std::ostream &os, const ReplicaGrouping &grouping);

}  // namespace popart

#endif  // popart_replicagrouping_hpp
