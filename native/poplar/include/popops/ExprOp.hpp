// Elementwise operations by name. Codelets include this, too.
#ifndef popops_ExprOp_hpp
#define popops_ExprOp_hpp

#ifndef __POPC__
#include <poputil/VertexTemplates.hpp>

#include <ostream>
#include <string>
#endif

/// Each operation: its name, its class in an expression, and its function.
#define POPOPS_UNARY_OPS(X)                                    \
  X(ABSOLUTE, Abs, abs)                                        \
  X(ASIN, Asin, asin)                                          \
  X(BITWISE_NOT, BitwiseNot, bitwiseNot)                       \
  X(CBRT, Cbrt, cbrt)                                          \
  X(CEIL, Ceil, ceil)                                          \
  X(COS, Cos, cos)                                             \
  X(COUNT_LEADING_ZEROS, CountLeadingZeros, countLeadingZeros) \
  X(ERF, Erf, erf)                                             \
  X(EXPONENT, Exp, exp)                                        \
  X(EXPONENT_MINUS_ONE, Expm1, expm1)                          \
  X(EXPONENT2, Exp2, exp2)                                     \
  X(FLOOR, Floor, floor)                                       \
  X(GELU_ERF, GeluErf, geluErf)                                \
  X(INVERSE, Inv, inv)                                         \
  X(LOGARITHM, Log, log)                                       \
  X(LOGARITHM_ONE_PLUS, Log1p, log1p)                          \
  X(LOGICAL_NOT, Not, logicalNot)                              \
  X(NEARBY_INT, NearbyInt, nearbyint)                          \
  X(NEGATE, Neg, neg)                                          \
  X(POPCOUNT, Popcount, popcount)                              \
  X(ROUND, Round, round)                                       \
  X(RSQRT, Rsqrt, rsqrt)                                       \
  X(SIGMOID, Sigmoid, sigmoid)                                 \
  X(SIGNUM, Signum, signum)                                    \
  X(SIN, Sin, sin)                                             \
  X(SQRT, Sqrt, sqrt)                                          \
  X(SQUARE, Square, square)                                    \
  X(TAN, Tan, tan)                                             \
  X(TANH, Tanh, tanh)

/// The same for results of another type, which have no form in place.
#define POPOPS_UNARY_PREDICATES(X) \
  X(IS_FINITE, IsFinite, isFinite) \
  X(IS_INF, IsInf, isInf)          \
  X(IS_NAN, IsNaN, isNaN)

#define POPOPS_BINARY_OPS(X)                                           \
  X(ADD, Add, add)                                                     \
  X(ATAN2, Atan2, atan2)                                               \
  X(BITWISE_AND, BitwiseAnd, bitwiseAnd)                               \
  X(BITWISE_OR, BitwiseOr, bitwiseOr)                                  \
  X(BITWISE_XOR, BitwiseXor, bitwiseXor)                               \
  X(BITWISE_XNOR, BitwiseXnor, bitwiseXnor)                            \
  X(DIVIDE, Divide, div)                                               \
  X(EQUAL, Equal, eq)                                                  \
  X(GREATER_THAN_EQUAL, Gte, gteq)                                     \
  X(GREATER_THAN, Gt, gt)                                              \
  X(INV_STD_DEV_TO_VARIANCE, InvStdDevToVariance, invStdDevToVariance) \
  X(LESS_THAN_EQUAL, Lte, lteq)                                        \
  X(LESS_THAN, Lt, lt)                                                 \
  X(LOGICAL_AND, And, logicalAnd)                                      \
  X(LOGICAL_OR, Or, logicalOr)                                         \
  X(MAXIMUM, Max, max)                                                 \
  X(MINIMUM, Min, min)                                                 \
  X(MULTIPLY, Mul, mul)                                                \
  X(NOT_EQUAL, NotEqual, neq)                                          \
  X(POWER, Pow, pow)                                                   \
  X(REMAINDER, Rem, rem)                                               \
  X(SHIFT_LEFT, Shl, shiftLeft)                                        \
  X(SHIFT_RIGHT, Shr, shiftRight)                                      \
  X(SHIFT_RIGHT_SIGN_EXTEND, ShrSE, shiftRightSignExtend)              \
  X(SUBTRACT, Sub, sub)                                                \
  X(VARIANCE_TO_INV_STD_DEV, VarianceToInvStdDev, varianceToInvStdDev)

#define POPOPS_TERNARY_OPS(X) \
  X(CLAMP, Clamp, clamp)      \
  X(SELECT, Select, select)

namespace popops {
namespace expr {

#define POPOPS_ENUMERATOR(OP, NODE, FUNCTION) OP,
enum class UnaryOpType {
  POPOPS_UNARY_OPS(POPOPS_ENUMERATOR) POPOPS_UNARY_PREDICATES(POPOPS_ENUMERATOR) RELU
};
enum class BinaryOpType { POPOPS_BINARY_OPS(POPOPS_ENUMERATOR) };
enum class TernaryOpType { POPOPS_TERNARY_OPS(POPOPS_ENUMERATOR) };
#undef POPOPS_ENUMERATOR

#ifndef __POPC__
/// The name of an operation: `ADD`.
std::string toString(UnaryOpType op);
std::string toString(BinaryOpType op);
std::string toString(TernaryOpType op);
inline std::ostream &operator<<(std::ostream &os, UnaryOpType op) { return os << toString(op); }
inline std::ostream &operator<<(std::ostream &os, BinaryOpType op) { return os << toString(op); }
inline std::ostream &operator<<(std::ostream &os, TernaryOpType op) { return os << toString(op); }
#endif

}  // namespace expr
}  // namespace popops

#ifndef __POPC__
namespace poputil {

#define POPOPS_VERTEX_ARGUMENT(ENUM)                                   \
  template <>                                                          \
  struct VertexTemplateToString<popops::expr::ENUM> {                  \
    static std::string to_string(const popops::expr::ENUM &op) {       \
      return "popops::expr::" #ENUM "::" + popops::expr::toString(op); \
    }                                                                  \
  };
POPOPS_VERTEX_ARGUMENT(UnaryOpType)
POPOPS_VERTEX_ARGUMENT(BinaryOpType)
POPOPS_VERTEX_ARGUMENT(TernaryOpType)
#undef POPOPS_VERTEX_ARGUMENT

}  // namespace poputil
#endif

#endif  // popops_ExprOp_hpp
