// Plans of CTC (connectionist temporal classification).
#ifndef popnn_CTCPlan_hpp
#define popnn_CTCPlan_hpp

#include <poplar/Type.hpp>

#include <cstddef>
#include <ostream>

namespace popnn {
namespace ctc {

/// Sizes and types of a loss or a beam search. Values do not depend on it.
class Plan {
 public:
  Plan() = default;

  poplar::Type inType, outType;
  std::size_t batchSize = 0, maxTime = 0, maxLabelLength = 0, numClasses = 0, beamwidth = 0;
};

bool operator<(const Plan &a, const Plan &b) noexcept;
bool operator==(const Plan &a, const Plan &b) noexcept;
std::ostream &operator<<(std::ostream &stream, const Plan &plan);

}  // namespace ctc
}  // namespace popnn

#endif  // popnn_CTCPlan_hpp
