// Proposals to compute an op in place.
#ifndef poprithms_memory_inplace_proposal_hpp
#define poprithms_memory_inplace_proposal_hpp

#include <cstdint>

namespace poprithms {
namespace memory {
namespace inplace {

struct TensorId {
  int64_t op = -1;
  int64_t index = 0;
};

class Graph {};

class Proposal {
 public:
  Proposal() {}
  Proposal(int64_t gate, int64_t index) : gate_(gate), index_(index) {}
  int64_t gateId() const { return gate_; }
  int64_t inIndex() const { return index_; }

 private:
  int64_t gate_ = -1, index_ = 0;
};

}  // namespace inplace
}  // namespace memory
}  // namespace poprithms

#endif  // poprithms_memory_inplace_proposal_hpp
