// Boxes of elements of a tensor.
#ifndef popart_region_hpp
#define popart_region_hpp

#include <popart/error.hpp>
#include <popart/names.hpp>

namespace popart {
namespace view {

enum class AccessType { None = 0, Read = 1, Write = 2, ReadWrite = 3, N = 4 };

std::ostream &operator<<(std::ostream &os, const AccessType &type);
AccessType combine(const std::set<AccessType> &types);

/// The elements from `lower` up to, and without, `upper`.
class Region {
 public:
  Region(const LowBounds &lower, const UppBounds &upper,
         AccessType accessType = AccessType::ReadWrite);
  static Region getEmpty(int64_t rank);
  static Region getFull(const Shape &shape, AccessType accessType = AccessType::ReadWrite);

  int64_t rank() const { return static_cast<int64_t>(lower_.size()); }
  int64_t nelms() const;
  bool isEmpty() const;
  const LowBounds &getLower() const { return lower_; }
  const UppBounds &getUpper() const { return upper_; }
  AccessType getAccessType() const { return accessType_; }
  void setAccessType(AccessType type) { accessType_ = type; }
  Region intersect(const Region &other) const;
  Region transpose(const std::vector<int64_t> &permutation) const;
  bool contains(const Region &other) const;
  bool contains(const std::vector<int64_t> &index) const;
  bool operator==(const Region &other) const;
  bool operator!=(const Region &other) const { return !(*this == other); }
  void append(std::ostream &os) const;

 private:
  struct EmptyOfRank {};
  Region(EmptyOfRank, int64_t rank);
  LowBounds lower_;
  UppBounds upper_;
  bool isEmpty_;
  AccessType accessType_;
};

std::ostream &operator<<(std::ostream &os, const Region &region);

}  // namespace view
}  // namespace popart

#endif  // popart_region_hpp
