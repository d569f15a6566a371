// The memory of plans of sparse products.
#ifndef popsparse_PlanningCache_hpp
#define popsparse_PlanningCache_hpp

#include <cstddef>

namespace popsparse {

namespace dynamic {
/// Plans that were made. Products on the CPU need none.
class PlanningCache {
 public:
  std::size_t size() const { return 0; }
};
}  // namespace dynamic

namespace static_ {
/// The same for patterns that do not change.
class PlanningCache {
 public:
  std::size_t size() const { return 0; }
};
}  // namespace static_

}  // namespace popsparse

#endif  // popsparse_PlanningCache_hpp
