// The memory of plans of products and convolutions.
#ifndef poplin_PlanningCache_hpp
#define poplin_PlanningCache_hpp

#include <cstddef>

namespace poplin {

/// Plans that were made. Products on the CPU need none, so that it stays empty.
class PlanningCache {
 public:
  std::size_t size() const { return 0; }
};

namespace matmul {
using PlanningCache = ::poplin::PlanningCache;
}  // namespace matmul

}  // namespace poplin

#endif  // poplin_PlanningCache_hpp
