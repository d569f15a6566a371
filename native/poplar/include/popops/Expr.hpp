// Expressions over elements of tensors, for `popops::map`.
#ifndef popops_Expr_hpp
#define popops_Expr_hpp

#include <poplar/IeeeHalf.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popops/ExprOp.hpp>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

namespace popops {
namespace expr {

/// A node of an expression, with the nodes below it.
class Expr {
 public:
  virtual ~Expr() {}
  virtual std::unique_ptr<Expr> clone() const = 0;
  virtual bool deepEquals(const Expr &other) const = 0;
  /// A name that may be part of a vertex's: types of tensors are in it.
  virtual std::string name(const std::vector<poplar::Tensor> &inputs) const = 0;
  virtual void print(std::ostream &os, unsigned indent = 0, bool prettyPrint = true) const = 0;

  template <typename Node>
  bool isA() const {
    return dynamic_cast<const Node *>(this) != nullptr;
  }
  template <typename Node>
  const Node *getAs() const {
    return dynamic_cast<const Node *>(this);
  }
};

/// A node of any class: what a vector of expressions holds.
class Any {
 public:
  Any(const Expr &expression) : expression_(expression.clone()) {}
  Any(const Any &other) : expression_(other.expression_->clone()) {}
  Any(Any &&) = default;
  Any &operator=(const Any &other) {
    expression_ = other.expression_->clone();
    return *this;
  }
  Any &operator=(Any &&) = default;

  operator Expr &() { return *expression_; }
  operator const Expr &() const { return *expression_; }

 private:
  std::unique_ptr<Expr> expression_;
};

/// A number. It takes the type of what it is combined with, but for a ConstHalf.
class Const : public Expr {
 public:
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  Const(T value)
      : type_(poplar::equivalent_device_type<T>().value),
        isTyped_(false),
        real_(static_cast<double>(value)),
        integer_(std::is_floating_point<T>::value ? 0 : static_cast<std::uint64_t>(value)) {}
  Const(poplar::IeeeHalf value) : Const(poplar::HALF, static_cast<float>(value)) {}

  std::unique_ptr<Expr> clone() const override;
  bool deepEquals(const Expr &other) const override;
  std::string name(const std::vector<poplar::Tensor> &inputs) const override;
  void print(std::ostream &os, unsigned indent = 0, bool prettyPrint = true) const override;

  /// Of the number on the host.
  const poplar::Type &getType() const { return type_; }
  /// Whether that is its type in any expression.
  bool isTyped() const { return isTyped_; }
  double getDataAsDouble() const { return real_; }
  std::uint64_t getDataForUnsignedIntegral() const { return integer_; }
  std::string printValue() const;

 protected:
  Const(const poplar::Type &type, double value)
      : type_(type), isTyped_(true), real_(value), integer_(0) {}

 private:
  poplar::Type type_;
  bool isTyped_;
  double real_;
  std::uint64_t integer_;
};

/// A number of HALF.
class ConstHalf : public Const {
 public:
  ConstHalf(float value) : Const(poplar::IeeeHalf(value)) {}
};

inline ConstHalf operator""_half(long double value) { return ConstHalf(static_cast<float>(value)); }
inline ConstHalf operator""_half(unsigned long long value) {
  return ConstHalf(static_cast<float>(value));
}

/// The n-th tensor of the list that an expression is evaluated for. The first is 1.
class PlaceHolder : public Expr {
 public:
  explicit PlaceHolder(unsigned index) : index_(index) {}

  std::unique_ptr<Expr> clone() const override;
  bool deepEquals(const Expr &other) const override;
  std::string name(const std::vector<poplar::Tensor> &inputs) const override;
  void print(std::ostream &os, unsigned indent = 0, bool prettyPrint = true) const override;

  unsigned getIndex() const { return index_; }

 private:
  unsigned index_;
};

const PlaceHolder _1(1), _2(2), _3(3), _4(4), _5(5), _6(6), _7(7), _8(8), _9(9), _10(10), _11(11),
    _12(12), _13(13), _14(14), _15(15), _16(16), _17(17), _18(18), _19(19), _20(20);

/// An element in another type.
class Cast : public Expr {
 public:
  Cast(const Expr &argument, const poplar::Type &type) : argument_(argument.clone()), type_(type) {}

  std::unique_ptr<Expr> clone() const override;
  bool deepEquals(const Expr &other) const override;
  std::string name(const std::vector<poplar::Tensor> &inputs) const override;
  void print(std::ostream &os, unsigned indent = 0, bool prettyPrint = true) const override;

  const Expr &getLHS() const { return *argument_; }
  const poplar::Type &getRHSType() const { return type_; }

 private:
  std::unique_ptr<Expr> argument_;
  poplar::Type type_;
};

/// An operation of one operand.
class UnaryOp : public Expr {
 public:
  UnaryOp(UnaryOpType op, const Expr &argument) : op_(op), argument_(argument.clone()) {}

  std::unique_ptr<Expr> clone() const override;
  bool deepEquals(const Expr &other) const override;
  std::string name(const std::vector<poplar::Tensor> &inputs) const override;
  void print(std::ostream &os, unsigned indent = 0, bool prettyPrint = true) const override;

  UnaryOpType getOpType() const { return op_; }
  const Expr &getArg() const { return *argument_; }

 private:
  UnaryOpType op_;
  std::unique_ptr<Expr> argument_;
};

/// An operation of two operands of one type.
class BinaryOp : public Expr {
 public:
  BinaryOp(BinaryOpType op, const Expr &left, const Expr &right)
      : op_(op), left_(left.clone()), right_(right.clone()) {}

  std::unique_ptr<Expr> clone() const override;
  bool deepEquals(const Expr &other) const override;
  std::string name(const std::vector<poplar::Tensor> &inputs) const override;
  void print(std::ostream &os, unsigned indent = 0, bool prettyPrint = true) const override;

  BinaryOpType getOpType() const { return op_; }
  const Expr &getLHS() const { return *left_; }
  const Expr &getRHS() const { return *right_; }

 private:
  BinaryOpType op_;
  std::unique_ptr<Expr> left_, right_;
};

/// An operation of three operands.
class TernaryOp : public Expr {
 public:
  TernaryOp(TernaryOpType op, const Expr &first, const Expr &second, const Expr &third)
      : op_(op), first_(first.clone()), second_(second.clone()), third_(third.clone()) {}

  std::unique_ptr<Expr> clone() const override;
  bool deepEquals(const Expr &other) const override;
  std::string name(const std::vector<poplar::Tensor> &inputs) const override;
  void print(std::ostream &os, unsigned indent = 0, bool prettyPrint = true) const override;

  TernaryOpType getOpType() const { return op_; }
  const Expr &getArg0() const { return *first_; }
  const Expr &getArg1() const { return *second_; }
  const Expr &getArg2() const { return *third_; }

 private:
  TernaryOpType op_;
  std::unique_ptr<Expr> first_, second_, third_;
};

// A class for each operation.
#define POPOPS_UNARY_NODE(OP, NODE, FUNCTION)                                   \
  class NODE : public UnaryOp {                                                 \
   public:                                                                      \
    explicit NODE(const Expr &argument) : UnaryOp(UnaryOpType::OP, argument) {} \
  };
#define POPOPS_BINARY_NODE(OP, NODE, FUNCTION)                                             \
  class NODE : public BinaryOp {                                                           \
   public:                                                                                 \
    NODE(const Expr &left, const Expr &right) : BinaryOp(BinaryOpType::OP, left, right) {} \
  };
#define POPOPS_TERNARY_NODE(OP, NODE, FUNCTION)                    \
  class NODE : public TernaryOp {                                  \
   public:                                                         \
    NODE(const Expr &first, const Expr &second, const Expr &third) \
        : TernaryOp(TernaryOpType::OP, first, second, third) {}    \
  };
POPOPS_UNARY_OPS(POPOPS_UNARY_NODE)
POPOPS_UNARY_PREDICATES(POPOPS_UNARY_NODE)
POPOPS_UNARY_NODE(RELU, Relu, relu)
POPOPS_BINARY_OPS(POPOPS_BINARY_NODE)
POPOPS_TERNARY_OPS(POPOPS_TERNARY_NODE)
#undef POPOPS_UNARY_NODE
#undef POPOPS_BINARY_NODE
#undef POPOPS_TERNARY_NODE

inline BitwiseNot operator~(const Expr &a) { return BitwiseNot(a); }
inline Not operator!(const Expr &a) { return Not(a); }
inline Neg operator-(const Expr &a) { return Neg(a); }

// Operators of two nodes, and of a node and a number.
#define POPOPS_BINARY_OPERATOR(OPERATOR, NODE)                                         \
  inline NODE operator OPERATOR(const Expr &a, const Expr &b) { return NODE(a, b); }   \
  template <typename T>                                                                \
  typename std::enable_if<std::is_arithmetic<T>::value, NODE>::type operator OPERATOR( \
      const T &a, const Expr &b) {                                                     \
    return NODE(Const(a), b);                                                          \
  }                                                                                    \
  template <typename T>                                                                \
  typename std::enable_if<std::is_arithmetic<T>::value, NODE>::type operator OPERATOR( \
      const Expr &a, const T &b) {                                                     \
    return NODE(a, Const(b));                                                          \
  }
POPOPS_BINARY_OPERATOR(+, Add)
POPOPS_BINARY_OPERATOR(-, Sub)
POPOPS_BINARY_OPERATOR(*, Mul)
POPOPS_BINARY_OPERATOR(/, Divide)
POPOPS_BINARY_OPERATOR(%, Rem)
POPOPS_BINARY_OPERATOR(&, BitwiseAnd)
POPOPS_BINARY_OPERATOR(|, BitwiseOr)
POPOPS_BINARY_OPERATOR(^, BitwiseXor)
POPOPS_BINARY_OPERATOR(<<, Shl)
POPOPS_BINARY_OPERATOR(>>, Shr)
POPOPS_BINARY_OPERATOR(&&, And)
POPOPS_BINARY_OPERATOR(||, Or)
POPOPS_BINARY_OPERATOR(==, Equal)
POPOPS_BINARY_OPERATOR(!=, NotEqual)
POPOPS_BINARY_OPERATOR(<, Lt)
POPOPS_BINARY_OPERATOR(<=, Lte)
POPOPS_BINARY_OPERATOR(>, Gt)
POPOPS_BINARY_OPERATOR(>=, Gte)
#undef POPOPS_BINARY_OPERATOR

/// Whether two expressions have the same nodes.
inline bool deepEquals(const Expr &a, const Expr &b) { return a.deepEquals(b); }

inline std::ostream &operator<<(std::ostream &os, const Expr &expression) {
  expression.print(os);
  return os;
}

}  // namespace expr
}  // namespace popops

#endif  // popops_Expr_hpp
