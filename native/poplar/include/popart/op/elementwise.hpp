// Bases of elementwise operations.
#ifndef popart_op_elementwise_hpp
#define popart_op_elementwise_hpp

#include <popart/op.hpp>

namespace popart {

/// One input, and an output of the same shape and type.
class ElementWiseUnaryOp : public Op {
 public:
  ElementWiseUnaryOp(const OperatorIdentifier &opid, const Op::Settings &settings);
  std::unique_ptr<Op> clone() const override;
  void setup() final;
  static InIndex getInIndex() { return 0; }
  static OutIndex getOutIndex() { return 0; }
  float getSubgraphValue() const override { return getLowSubgraphValue(); }
  bool isElementWiseUnary() const override { return true; }
  bool canShard() const override { return true; }
};

/// One input, and an output of booleans of the same shape.
class ElementWiseUnaryBooleanOp : public Op {
 public:
  ElementWiseUnaryBooleanOp(const OperatorIdentifier &opid, const Op::Settings &settings);
  std::unique_ptr<Op> clone() const override;
  void setup() final;
  static InIndex getInIndex() { return 0; }
  static OutIndex getOutIndex() { return 0; }
  float getSubgraphValue() const override { return getLowSubgraphValue(); }
};

/// Writes its output into its input.
class ElementWiseInplaceUnaryOp : public ElementWiseUnaryOp {
 public:
  ElementWiseInplaceUnaryOp(const OperatorIdentifier &opid, const Op::Settings &settings);
  std::unique_ptr<Op> clone() const override;
  view::Regions modifies(InIndex index) const final;
  view::Regions aliases(InIndex in, OutIndex out) const final;
};

/// The gradient of an elementwise op, which it computes with the input of that.
class ElementWiseNonLinearUnaryGradOp : public Op {
 public:
  ElementWiseNonLinearUnaryGradOp(const OperatorIdentifier &opid,
                                  const ElementWiseUnaryOp &forward);
  std::unique_ptr<Op> clone() const override;
  const std::vector<GradInOutMapper> &gradInputInfo() const final;
  const std::map<int, int> &gradOutToNonGradIn() const final;
  void setup() final;
  static InIndex getGradInIndex() { return 0; }
  static InIndex getFwdArgInIndex() { return 1; }
  static OutIndex getOutIndex() { return 0; }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }
};

/// Two inputs that broadcast to each other by the rules of NumPy.
class ElementWiseBinaryOp : public Op {
 public:
  ElementWiseBinaryOp(const OperatorIdentifier &opid, const Op::Settings &settings);
  std::unique_ptr<Op> clone() const override;
  void setup() final;
  static InIndex getArg0InIndex() { return 0; }
  static InIndex getArg1InIndex() { return 1; }
  static OutIndex getOutIndex() { return 0; }
  float getSubgraphValue() const override { return getLowSubgraphValue(); }
};

}  // namespace popart

#endif  // popart_op_elementwise_hpp
