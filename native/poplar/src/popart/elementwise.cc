#include "popart/op/elementwise.hpp"

#include <map>
#include <vector>

namespace popart {
namespace {

view::Regions WholeOf(const Shape& shape) { return {view::Region::getFull(shape)}; }

template <typename T>
std::unique_ptr<Op> CloneOf(const T& op) {
  return std::unique_ptr<Op>(new T(op));
}

}  // namespace

ElementWiseUnaryOp::ElementWiseUnaryOp(const OperatorIdentifier& opid, const Op::Settings& settings)
    : Op(opid, settings) {}
std::unique_ptr<Op> ElementWiseUnaryOp::clone() const { return CloneOf(*this); }
void ElementWiseUnaryOp::setup() { outInfo(getOutIndex()) = inInfo(getInIndex()); }

ElementWiseUnaryBooleanOp::ElementWiseUnaryBooleanOp(const OperatorIdentifier& opid,
                                                     const Op::Settings& settings)
    : Op(opid, settings) {}
std::unique_ptr<Op> ElementWiseUnaryBooleanOp::clone() const { return CloneOf(*this); }
void ElementWiseUnaryBooleanOp::setup() {
  outInfo(getOutIndex()) = {DataType::BOOL, inInfo(getInIndex()).shape()};
}

ElementWiseInplaceUnaryOp::ElementWiseInplaceUnaryOp(const OperatorIdentifier& opid,
                                                     const Op::Settings& settings)
    : ElementWiseUnaryOp(opid, settings) {}
std::unique_ptr<Op> ElementWiseInplaceUnaryOp::clone() const { return CloneOf(*this); }
view::Regions ElementWiseInplaceUnaryOp::modifies(InIndex index) const {
  return WholeOf(inShape(index));
}
view::Regions ElementWiseInplaceUnaryOp::aliases(InIndex in, OutIndex) const {
  return WholeOf(inShape(in));
}

ElementWiseNonLinearUnaryGradOp::ElementWiseNonLinearUnaryGradOp(const OperatorIdentifier& opid,
                                                                 const ElementWiseUnaryOp& forward)
    : Op(opid, forward.getSettings()) {}
std::unique_ptr<Op> ElementWiseNonLinearUnaryGradOp::clone() const { return CloneOf(*this); }
const std::vector<GradInOutMapper>& ElementWiseNonLinearUnaryGradOp::gradInputInfo() const {
  static const std::vector<GradInOutMapper> info = {
      {getGradInIndex(), ElementWiseUnaryOp::getOutIndex(), GradOpInType::GradOut},
      {getFwdArgInIndex(), ElementWiseUnaryOp::getInIndex(), GradOpInType::In}};
  return info;
}
const std::map<int, int>& ElementWiseNonLinearUnaryGradOp::gradOutToNonGradIn() const {
  static const std::map<int, int> info = {{getOutIndex(), ElementWiseUnaryOp::getInIndex()}};
  return info;
}
void ElementWiseNonLinearUnaryGradOp::setup() {
  outInfo(getOutIndex()) = inInfo(getFwdArgInIndex());
}

ElementWiseBinaryOp::ElementWiseBinaryOp(const OperatorIdentifier& opid,
                                         const Op::Settings& settings)
    : Op(opid, settings) {}
std::unique_ptr<Op> ElementWiseBinaryOp::clone() const { return CloneOf(*this); }
void ElementWiseBinaryOp::setup() {
  outInfo(getOutIndex()) = prettyNpOut(inInfo(getArg0InIndex()), inInfo(getArg1InIndex()));
}

}  // namespace popart
