#include "popops/typed_expression.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "popops/block_functions.h"

namespace popops {
namespace {

using namespace popops::expr;
using poplar::Tensor;
using poplar::Type;
using poputil::TextOf;

using MaybeType = std::optional<Type>;

class Typing {
 public:
  Typing(const std::vector<Tensor>& tensors, const poputil::Call& call)
      : tensors_(tensors), call_(call) {}

  TypedExpression Run(const Expr& expression, const Type* wanted) {
    MaybeType type = TypeOf(expression);
    if (!type.has_value() && wanted != nullptr) type = *wanted;
    if (!type.has_value()) type = OwnType(expression);
    Emit(expression, *type);
    result_.type = *type;
    return std::move(result_);
  }

 private:
  // The type of a node, or nothing if it has numbers only.
  MaybeType TypeOf(const Expr& node) const {
    if (const auto* n = node.getAs<Const>())
      return n->isTyped() ? MaybeType(n->getType()) : MaybeType();
    if (const auto* n = node.getAs<PlaceHolder>()) return TensorOf(*n).elementType();
    if (const auto* n = node.getAs<Cast>()) return n->getRHSType();
    if (const auto* n = node.getAs<UnaryOp>()) {
      return IsPredicate(n->getOpType()) ? MaybeType(poplar::BOOL) : TypeOf(n->getArg());
    }
    if (const auto* n = node.getAs<BinaryOp>()) {
      const MaybeType operands = OperandType(*n);
      return IsPredicate(n->getOpType()) ? MaybeType(poplar::BOOL) : operands;
    }
    const auto& n = static_cast<const TernaryOp&>(node);
    const MaybeType first = Common(n, TypeOf(n.getArg0()), TypeOf(n.getArg1()));
    return n.getOpType() == TernaryOpType::SELECT ? first : Common(n, first, TypeOf(n.getArg2()));
  }

  MaybeType OperandType(const BinaryOp& node) const {
    return Common(node, TypeOf(node.getLHS()), TypeOf(node.getRHS()));
  }

  MaybeType Common(const Expr& node, MaybeType a, MaybeType b) const {
    if (a.has_value() && b.has_value() && *a != *b) {
      call_.Fail("the operands of " + NameOf(node) + " have the types " + TextOf(*a) + " and " +
                 TextOf(*b) + "; they have to be one: use Cast.");
    }
    return a.has_value() ? a : b;
  }

  // The type of a node of numbers only: of a float if there is one, else of the first.
  static Type OwnType(const Expr& node) {
    if (const auto* n = node.getAs<Const>()) return DeviceType(n->getType());
    if (const auto* n = node.getAs<UnaryOp>()) return OwnType(n->getArg());
    if (const auto* n = node.getAs<BinaryOp>()) {
      return Wider(OwnType(n->getLHS()), OwnType(n->getRHS()));
    }
    const auto& n = static_cast<const TernaryOp&>(node);
    return Wider(OwnType(n.getArg0()), OwnType(n.getArg1()));
  }

  static Type Wider(Type a, Type b) { return !a.isFloatingPoint() && b.isFloatingPoint() ? b : a; }

  static Type DeviceType(Type type) {
    if (type == poplar::DOUBLE) return poplar::FLOAT;
    if (type == poplar::LONG || type == poplar::LONGLONG) return poplar::INT;
    const bool is_long = type == poplar::UNSIGNED_LONG || type == poplar::UNSIGNED_LONGLONG;
    return is_long ? poplar::UNSIGNED_INT : type;
  }

  const Tensor& TensorOf(const PlaceHolder& node) const {
    const unsigned index = node.getIndex();
    if (index == 0 || index > tensors_.size()) {
      call_.Fail("the expression has the placeholder _" + std::to_string(index) + ", and " +
                 std::to_string(tensors_.size()) + " tensors are given.");
    }
    return tensors_[index - 1];
  }

  static std::string NameOf(const Expr& node) {
    if (const auto* n = node.getAs<UnaryOp>()) return toString(n->getOpType());
    if (const auto* n = node.getAs<BinaryOp>()) return toString(n->getOpType());
    return toString(static_cast<const TernaryOp&>(node).getOpType());
  }

  // ---- text

  void Append(const std::string& token) {
    result_.text += (result_.text.empty() ? "" : " ") + token;
  }

  template <typename Op>
  void AppendOp(const char* arity, Op op, const Type& type) {
    if (FindBlockOp(op, ElementOf(type)).function == nullptr) {
      call_.Fail(toString(op) + " is not defined for elements of " + TextOf(type) + ".");
    }
    Append(std::string(arity) + ":" + toString(op) + ":" + CodeOf(ElementOf(type)));
  }

  // Appends a node, whose type is known by now.
  void Emit(const Expr& node, const Type& type) {
    if (const auto* n = node.getAs<Const>()) return EmitConst(*n, type);
    if (const auto* n = node.getAs<PlaceHolder>()) return EmitPlaceHolder(*n);
    if (const auto* n = node.getAs<Cast>()) return EmitCast(*n);
    if (const auto* n = node.getAs<UnaryOp>()) return EmitUnary(*n, type);
    if (const auto* n = node.getAs<BinaryOp>()) return EmitBinary(*n, type);
    EmitTernary(static_cast<const TernaryOp&>(node), type);
  }

  void EmitConst(const Const& node, const Type& type) {
    char text[64];
    if (type.isFloatingPoint()) {
      std::snprintf(text, sizeof text, "%a", node.getDataAsDouble());
    } else if (type == poplar::BOOL) {
      std::snprintf(text, sizeof text, "%d", node.getDataAsDouble() != 0);
    } else {
      const int64_t value = node.getType().isFloatingPoint()
                                ? static_cast<int64_t>(node.getDataAsDouble())
                                : static_cast<int64_t>(node.getDataForUnsignedIntegral());
      std::snprintf(text, sizeof text, "%lld", static_cast<long long>(value));
    }
    Append("#" + std::string(CodeOf(ElementOf(type))) + ":" + text);
  }

  void EmitPlaceHolder(const PlaceHolder& node) {
    TensorOf(node);
    const unsigned index = node.getIndex() - 1;
    const auto found = std::find(result_.used.begin(), result_.used.end(), index);
    Append("$" + std::to_string(found - result_.used.begin()));
    if (found == result_.used.end()) result_.used.push_back(index);
  }

  Type ResolvedType(const Expr& node) const {
    const MaybeType type = TypeOf(node);
    return type.has_value() ? *type : OwnType(node);
  }

  void EmitCast(const Cast& node) {
    const Type from = ResolvedType(node.getLHS());
    Emit(node.getLHS(), from);
    Append(std::string("C:") + CodeOf(ElementOf(from)) + ":" +
           CodeOf(ElementOf(node.getRHSType())));
  }

  void EmitUnary(const UnaryOp& node, const Type& type) {
    const Type operand = IsPredicate(node.getOpType()) ? ResolvedType(node.getArg()) : type;
    Emit(node.getArg(), operand);
    AppendOp("U", node.getOpType(), operand);
  }

  void EmitBinary(const BinaryOp& node, const Type& type) {
    Type operand = type;
    if (IsPredicate(node.getOpType())) {
      const MaybeType common = OperandType(node);
      operand =
          common.has_value() ? *common : Wider(OwnType(node.getLHS()), OwnType(node.getRHS()));
    }
    Emit(node.getLHS(), operand);
    Emit(node.getRHS(), operand);
    AppendOp("B", node.getOpType(), operand);
  }

  void EmitTernary(const TernaryOp& node, const Type& type) {
    Emit(node.getArg0(), type);
    Emit(node.getArg1(), type);
    const bool selects = node.getOpType() == TernaryOpType::SELECT;
    if (selects && ResolvedType(node.getArg2()) != poplar::BOOL) {
      call_.Fail("the condition of SELECT has to be of bool, not of " +
                 TextOf(ResolvedType(node.getArg2())) + ".");
    }
    Emit(node.getArg2(), selects ? poplar::BOOL : type);
    AppendOp("T", node.getOpType(), type);
  }

  const std::vector<Tensor>& tensors_;
  const poputil::Call& call_;
  TypedExpression result_;
};

}  // namespace

TypedExpression TypesOf(const Expr& expression, const std::vector<Tensor>& tensors,
                        const Type* wanted, const poputil::Call& call) {
  return Typing(tensors, call).Run(expression, wanted);
}

}  // namespace popops
