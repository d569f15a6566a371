// The base of ops that PopART brings.
#ifndef popart_detail_builtinop_hpp
#define popart_detail_builtinop_hpp

#include <popart/op.hpp>

namespace popart {
namespace detail {

/// An op of a model that the front end computes. Patterns see it, and make others.
class BuiltInOp : public Op {
 public:
  using Op::Op;
  std::unique_ptr<Op> clone() const override;
  /// Keeps the shapes of outputs that the front end has set.
  void setup() override;
  float getSubgraphValue() const override { return getHighSubgraphValue(); }
};

}  // namespace detail
}  // namespace popart

#endif  // popart_detail_builtinop_hpp
