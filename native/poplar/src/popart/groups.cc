// Groups of replicas, regions and scopes.
#include <string>
#include <vector>

#include "popart/commgroup.hpp"
#include "popart/region.hpp"
#include "popart/replicagrouping.hpp"
#include "popart/scope.hpp"

namespace popart {

ReplicaGrouping::ReplicaGrouping(unsigned numReplicas, unsigned stride, unsigned groupSize)
    : numReplicas_(numReplicas), stride_(stride), groupSize_(groupSize) {
  if (numReplicas == 0 || stride == 0 || groupSize == 0 || numReplicas % groupSize != 0 ||
      stride * groupSize > numReplicas || numReplicas % (stride * groupSize) != 0) {
    throw error(
        "A ReplicaGrouping needs a number of replicas that is a multiple of stride times group "
        "size. Received: numReplicas={}, stride={}, groupSize={}",
        numReplicas, stride, groupSize);
  }
}
ReplicaGrouping::ReplicaGrouping(unsigned numReplicas)
    : ReplicaGrouping(numReplicas, 1, numReplicas) {}

unsigned ReplicaGrouping::getGroupAt(unsigned replica) const {
  const unsigned block = stride_ * groupSize_;
  return replica / block * stride_ + replica % stride_;
}
unsigned ReplicaGrouping::getIndexInGroupAt(unsigned replica) const {
  return replica % (stride_ * groupSize_) / stride_;
}
unsigned ReplicaGrouping::getReplicaAt(unsigned group, unsigned index) const {
  return group / stride_ * stride_ * groupSize_ + group % stride_ + index * stride_;
}
std::vector<unsigned> ReplicaGrouping::getReplicasAt(unsigned group) const {
  std::vector<unsigned> replicas;
  for (unsigned i = 0; i < groupSize_; ++i) replicas.push_back(getReplicaAt(group, i));
  return replicas;
}
ReplicaGrouping ReplicaGrouping::getTranspose() const {
  if (stride_ != 1 && stride_ != getNumGroups()) {
    throw error("A ReplicaGrouping with a stride of {} has no transpose", stride_);
  }
  return ReplicaGrouping(numReplicas_, stride_ == 1 ? groupSize_ : 1, getNumGroups());
}
std::string ReplicaGrouping::str() const {
  return logging::format("ReplicaGrouping(numReplicas={}, stride={}, groupSize={})", numReplicas_,
                         stride_, groupSize_);
}
std::ostream& operator<<(std::ostream& os, const ReplicaGrouping& grouping) {
  return os << grouping.str();
}

CommGroup::CommGroup(const ReplicaGrouping& grouping)
    : type(grouping.getStride() == 1 ? CommGroupType::Consecutive : CommGroupType::Orthogonal),
      replicaGroupSize(grouping.getGroupSize()) {
  if (grouping.getGroupSize() == grouping.getNumReplicas()) type = CommGroupType::All;
  if (grouping.getGroupSize() == 1) type = CommGroupType::None;
}
ReplicaGrouping CommGroup::toReplicaGrouping(unsigned numReplicas) const {
  switch (type) {
    case CommGroupType::All:
      return ReplicaGrouping(numReplicas);
    case CommGroupType::None:
      return ReplicaGrouping(numReplicas, 1, 1);
    case CommGroupType::Consecutive:
      return ReplicaGrouping(numReplicas, 1, replicaGroupSize);
    case CommGroupType::Orthogonal:
      return ReplicaGrouping(numReplicas, numReplicas / replicaGroupSize, replicaGroupSize);
    default:
      throw error("{} is no group of replicas", *this);
  }
}
std::ostream& operator<<(std::ostream& os, CommGroupType type) {
  constexpr const char* kNames[] = {"All", "Consecutive", "Orthogonal", "None", "N"};
  return os << kNames[static_cast<int>(type)];
}
std::ostream& operator<<(std::ostream& os, const CommGroup& group) {
  return os << "CommGroup(type=" << group.type << ", replicaGroupSize=" << group.replicaGroupSize
            << ")";
}

std::string Scope::str() const {
  std::string text;
  for (const std::string& name : names_) text += (text.empty() ? "" : "/") + name;
  return text;
}
Scope Scope::operator/(const std::string& name) const {
  Scope inner = *this;
  inner.names_.push_back(name);
  return inner;
}
std::ostream& operator<<(std::ostream& os, const Scope& scope) { return os << scope.str(); }

namespace view {

std::ostream& operator<<(std::ostream& os, const AccessType& type) {
  constexpr const char* kNames[] = {"None", "Read", "Write", "ReadWrite", "N"};
  return os << kNames[static_cast<int>(type)];
}

AccessType combine(const std::set<AccessType>& types) {
  int access = 0;
  for (const AccessType type : types) access |= static_cast<int>(type);
  return static_cast<AccessType>(access);
}

Region::Region(const LowBounds& lower, const UppBounds& upper, AccessType accessType)
    : lower_(lower), upper_(upper), isEmpty_(false), accessType_(accessType) {
  if (lower.size() != upper.size()) {
    throw error("The bounds of a Region differ in rank: {} and {}", lower, upper);
  }
  for (size_t i = 0; i < lower.size(); ++i) isEmpty_ = isEmpty_ || lower[i] >= upper[i];
}
Region::Region(EmptyOfRank, int64_t rank)
    : lower_(rank, 0), upper_(rank, 0), isEmpty_(true), accessType_(AccessType::None) {}
Region Region::getEmpty(int64_t rank) { return Region(EmptyOfRank(), rank); }
Region Region::getFull(const Shape& shape, AccessType accessType) {
  return Region(LowBounds(shape.size(), 0), shape, accessType);
}

int64_t Region::nelms() const {
  if (isEmpty_) return 0;
  int64_t count = 1;
  for (size_t i = 0; i < lower_.size(); ++i) count *= upper_[i] - lower_[i];
  return count;
}
bool Region::isEmpty() const { return isEmpty_; }

Region Region::intersect(const Region& other) const {
  if (rank() != other.rank()) {
    throw error("Regions of rank {} and {} do not intersect", rank(), other.rank());
  }
  if (isEmpty_ || other.isEmpty_) return getEmpty(rank());
  LowBounds lower = lower_;
  UppBounds upper = upper_;
  for (size_t i = 0; i < lower.size(); ++i) {
    lower[i] = std::max(lower[i], other.lower_[i]);
    upper[i] = std::min(upper[i], other.upper_[i]);
    if (lower[i] >= upper[i]) return getEmpty(rank());
  }
  return Region(lower, upper, accessType_);
}

Region Region::transpose(const std::vector<int64_t>& permutation) const {
  Region result = *this;
  for (size_t i = 0; i < permutation.size(); ++i) {
    result.lower_[i] = lower_[permutation[i]];
    result.upper_[i] = upper_[permutation[i]];
  }
  return result;
}

bool Region::contains(const Region& other) const {
  return other.isEmpty_ || (rank() == other.rank() && intersect(other).nelms() == other.nelms());
}
bool Region::contains(const std::vector<int64_t>& index) const {
  if (isEmpty_ || index.size() != lower_.size()) return false;
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < lower_[i] || index[i] >= upper_[i]) return false;
  }
  return true;
}
bool Region::operator==(const Region& other) const {
  return isEmpty_ == other.isEmpty_ && lower_ == other.lower_ && upper_ == other.upper_;
}
void Region::append(std::ostream& os) const {
  os << "L:" << lower_ << " U:" << upper_ << (isEmpty_ ? " (empty)" : "");
}
std::ostream& operator<<(std::ostream& os, const Region& region) {
  region.append(os);
  return os;
}

}  // namespace view
}  // namespace popart
