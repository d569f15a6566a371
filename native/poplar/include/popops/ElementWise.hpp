// Operations on elements of tensors.
//
// Shapes are broadcast as NumPy does. Operands of one operation have one type: nothing is promoted.
// Each operation has three forms: one with a new tensor, `...InPlace` with the result in the first
// operand, and `...WithOutput` with the result in a tensor of the caller.
#ifndef popops_ElementWise_hpp
#define popops_ElementWise_hpp

#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <popops/Expr.hpp>
#include <popops/ExprOp.hpp>

#include <ostream>
#include <type_traits>
#include <vector>

namespace popops {

namespace core {

/// Evaluates an expression into a new tensor, or into `out`. Errors name `function`.
poplar::Tensor elementWise(poplar::Graph &graph, const expr::Expr &expression,
                           const std::vector<poplar::Tensor> &ts, poplar::program::Sequence &prog,
                           const poplar::DebugContext &debugContext,
                           const poplar::OptionFlags &options, const char *function);
void elementWiseInto(poplar::Graph &graph, const expr::Expr &expression,
                     const std::vector<poplar::Tensor> &ts, const poplar::Tensor &out,
                     poplar::program::Sequence &prog, const poplar::DebugContext &debugContext,
                     const poplar::OptionFlags &options, const char *function);

}  // namespace core

/// Evaluates an expression, whose placeholders are `ts`, into a new tensor.
inline poplar::Tensor map(poplar::Graph &graph, const expr::Expr &expr,
                          const std::vector<poplar::Tensor> &ts, poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  return core::elementWise(graph, expr, ts, prog, debugContext, options, "popops::map");
}
/// The same into the first of `ts`.
void mapInPlace(poplar::Graph &graph, const expr::Expr &expr, const std::vector<poplar::Tensor> &ts,
                poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {},
                const poplar::OptionFlags &options = {});
/// The same into `out`.
inline void mapWithOutput(poplar::Graph &graph, const expr::Expr &expr,
                          const std::vector<poplar::Tensor> &ts, const poplar::Tensor &out,
                          poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  core::elementWiseInto(graph, expr, ts, out, prog, debugContext, options, "popops::mapWithOutput");
}
/// Evaluates several expressions over the same tensors.
std::vector<poplar::Tensor> map(poplar::Graph &graph, const std::vector<expr::Any> &exprs,
                                const std::vector<poplar::Tensor> &ts,
                                poplar::program::Sequence &prog,
                                const poplar::DebugContext &debugContext = {},
                                const poplar::OptionFlags &options = {});

// One operation.
inline poplar::Tensor map(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &t,
                          poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  return map(graph, expr::UnaryOp(op, expr::_1), {t}, prog, debugContext, options);
}
inline poplar::Tensor map(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  return map(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, prog, debugContext, options);
}
inline poplar::Tensor map(poplar::Graph &graph, expr::TernaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, const poplar::Tensor &c,
                          poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  return map(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, prog,
             debugContext, options);
}
inline void mapInPlace(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &t,
                       poplar::program::Sequence &prog,
                       const poplar::DebugContext &debugContext = {},
                       const poplar::OptionFlags &options = {}) {
  mapInPlace(graph, expr::UnaryOp(op, expr::_1), {t}, prog, debugContext, options);
}
inline void mapInPlace(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a,
                       const poplar::Tensor &b, poplar::program::Sequence &prog,
                       const poplar::DebugContext &debugContext = {},
                       const poplar::OptionFlags &options = {}) {
  mapInPlace(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, prog, debugContext, options);
}
inline void mapInPlace(poplar::Graph &graph, expr::TernaryOpType op, const poplar::Tensor &a,
                       const poplar::Tensor &b, const poplar::Tensor &c,
                       poplar::program::Sequence &prog,
                       const poplar::DebugContext &debugContext = {},
                       const poplar::OptionFlags &options = {}) {
  mapInPlace(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, prog,
             debugContext, options);
}
inline void mapWithOutput(poplar::Graph &graph, expr::UnaryOpType op, const poplar::Tensor &t,
                          const poplar::Tensor &out, poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  mapWithOutput(graph, expr::UnaryOp(op, expr::_1), {t}, out, prog, debugContext, options);
}
inline void mapWithOutput(poplar::Graph &graph, expr::BinaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, const poplar::Tensor &out,
                          poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  mapWithOutput(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, out, prog, debugContext,
                options);
}
inline void mapWithOutput(poplar::Graph &graph, expr::TernaryOpType op, const poplar::Tensor &a,
                          const poplar::Tensor &b, const poplar::Tensor &c,
                          const poplar::Tensor &out, poplar::program::Sequence &prog,
                          const poplar::DebugContext &debugContext = {},
                          const poplar::OptionFlags &options = {}) {
  mapWithOutput(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, out, prog,
                debugContext, options);
}

/// Writes the text of the codelet that would run an expression.
void outputGeneratedCodelet(const poplar::Target &target, const expr::Expr &expr,
                            const std::vector<poplar::Tensor> &ts,
                            const poplar::OptionFlags &options, std::ostream &os);

// The parameters that all functions end with, and the arguments for them.
#define POPOPS_TAIL                \
  poplar::program::Sequence &prog, \
      const poplar::DebugContext &debugContext = {}, const poplar::OptionFlags &options = {}
#define POPOPS_PASS(FUNCTION) prog, debugContext, options, "popops::" #FUNCTION

#define POPOPS_NEW_UNARY(OP, NODE, FUNCTION)                                                   \
  inline poplar::Tensor FUNCTION(poplar::Graph &graph, const poplar::Tensor &A, POPOPS_TAIL) { \
    return core::elementWise(graph, expr::NODE(expr::_1), {A}, POPOPS_PASS(FUNCTION));         \
  }                                                                                            \
  inline void FUNCTION##WithOutput(poplar::Graph &graph, const poplar::Tensor &A,              \
                                   const poplar::Tensor &out, POPOPS_TAIL) {                   \
    core::elementWiseInto(graph, expr::NODE(expr::_1), {A}, out,                               \
                          POPOPS_PASS(FUNCTION##WithOutput));                                  \
  }
#define POPOPS_UNARY(OP, NODE, FUNCTION)                                                        \
  POPOPS_NEW_UNARY(OP, NODE, FUNCTION)                                                          \
  inline void FUNCTION##InPlace(poplar::Graph &graph, const poplar::Tensor &A, POPOPS_TAIL) {   \
    core::elementWiseInto(graph, expr::NODE(expr::_1), {A}, A, POPOPS_PASS(FUNCTION##InPlace)); \
  }

// Two tensors, a tensor and a number, or a number and a tensor.
#define POPOPS_IF_NUMBER(T) typename std::enable_if<poplar::TypeTraits::isSimpleType<T>()>::type
#define POPOPS_BINARY(OP, NODE, FUNCTION)                                                          \
  inline poplar::Tensor FUNCTION(poplar::Graph &graph, const poplar::Tensor &A,                    \
                                 const poplar::Tensor &B, POPOPS_TAIL) {                           \
    return core::elementWise(graph, expr::NODE(expr::_1, expr::_2), {A, B},                        \
                             POPOPS_PASS(FUNCTION));                                               \
  }                                                                                                \
  template <typename T, typename = POPOPS_IF_NUMBER(T)>                                            \
  poplar::Tensor FUNCTION(poplar::Graph &graph, const poplar::Tensor &A, const T B, POPOPS_TAIL) { \
    return core::elementWise(graph, expr::NODE(expr::_1, expr::Const(B)), {A},                     \
                             POPOPS_PASS(FUNCTION));                                               \
  }                                                                                                \
  template <typename T, typename = POPOPS_IF_NUMBER(T)>                                            \
  poplar::Tensor FUNCTION(poplar::Graph &graph, const T A, const poplar::Tensor &B, POPOPS_TAIL) { \
    return core::elementWise(graph, expr::NODE(expr::Const(A), expr::_1), {B},                     \
                             POPOPS_PASS(FUNCTION));                                               \
  }                                                                                                \
  inline void FUNCTION##InPlace(poplar::Graph &graph, const poplar::Tensor &A,                     \
                                const poplar::Tensor &B, POPOPS_TAIL) {                            \
    core::elementWiseInto(graph, expr::NODE(expr::_1, expr::_2), {A, B}, A,                        \
                          POPOPS_PASS(FUNCTION##InPlace));                                         \
  }                                                                                                \
  template <typename T, typename = POPOPS_IF_NUMBER(T)>                                            \
  void FUNCTION##InPlace(poplar::Graph &graph, const poplar::Tensor &A, const T B, POPOPS_TAIL) {  \
    core::elementWiseInto(graph, expr::NODE(expr::_1, expr::Const(B)), {A}, A,                     \
                          POPOPS_PASS(FUNCTION##InPlace));                                         \
  }                                                                                                \
  inline void FUNCTION##WithOutput(poplar::Graph &graph, const poplar::Tensor &A,                  \
                                   const poplar::Tensor &B, const poplar::Tensor &out,             \
                                   POPOPS_TAIL) {                                                  \
    core::elementWiseInto(graph, expr::NODE(expr::_1, expr::_2), {A, B}, out,                      \
                          POPOPS_PASS(FUNCTION##WithOutput));                                      \
  }                                                                                                \
  template <typename T, typename = POPOPS_IF_NUMBER(T)>                                            \
  void FUNCTION##WithOutput(poplar::Graph &graph, const poplar::Tensor &A, const T B,              \
                            const poplar::Tensor &out, POPOPS_TAIL) {                              \
    core::elementWiseInto(graph, expr::NODE(expr::_1, expr::Const(B)), {A}, out,                   \
                          POPOPS_PASS(FUNCTION##WithOutput));                                      \
  }                                                                                                \
  template <typename T, typename = POPOPS_IF_NUMBER(T)>                                            \
  void FUNCTION##WithOutput(poplar::Graph &graph, const T A, const poplar::Tensor &B,              \
                            const poplar::Tensor &out, POPOPS_TAIL) {                              \
    core::elementWiseInto(graph, expr::NODE(expr::Const(A), expr::_1), {B}, out,                   \
                          POPOPS_PASS(FUNCTION##WithOutput));                                      \
  }

#define POPOPS_TERNARY(OP, NODE, FUNCTION)                                                        \
  inline poplar::Tensor FUNCTION(poplar::Graph &graph, const poplar::Tensor &A,                   \
                                 const poplar::Tensor &B, const poplar::Tensor &C, POPOPS_TAIL) { \
    return core::elementWise(graph, expr::NODE(expr::_1, expr::_2, expr::_3), {A, B, C},          \
                             POPOPS_PASS(FUNCTION));                                              \
  }                                                                                               \
  inline void FUNCTION##InPlace(poplar::Graph &graph, const poplar::Tensor &A,                    \
                                const poplar::Tensor &B, const poplar::Tensor &C, POPOPS_TAIL) {  \
    core::elementWiseInto(graph, expr::NODE(expr::_1, expr::_2, expr::_3), {A, B, C}, A,          \
                          POPOPS_PASS(FUNCTION##InPlace));                                        \
  }                                                                                               \
  inline void FUNCTION##WithOutput(poplar::Graph &graph, const poplar::Tensor &A,                 \
                                   const poplar::Tensor &B, const poplar::Tensor &C,              \
                                   const poplar::Tensor &out, POPOPS_TAIL) {                      \
    core::elementWiseInto(graph, expr::NODE(expr::_1, expr::_2, expr::_3), {A, B, C}, out,        \
                          POPOPS_PASS(FUNCTION##WithOutput));                                     \
  }

POPOPS_UNARY_OPS(POPOPS_UNARY)
POPOPS_UNARY_PREDICATES(POPOPS_NEW_UNARY)
POPOPS_BINARY_OPS(POPOPS_BINARY)
POPOPS_TERNARY_OPS(POPOPS_TERNARY)

// Select and clamp with numbers.
#define POPOPS_TERNARY_NUMBERS(NODE, FUNCTION)                                              \
  template <typename T, typename = POPOPS_IF_NUMBER(T)>                                     \
  poplar::Tensor FUNCTION(poplar::Graph &graph, const poplar::Tensor &A, const T B,         \
                          const poplar::Tensor &C, POPOPS_TAIL) {                           \
    return core::elementWise(graph, expr::NODE(expr::_1, expr::Const(B), expr::_2), {A, C}, \
                             POPOPS_PASS(FUNCTION));                                        \
  }                                                                                         \
  template <typename T, typename = POPOPS_IF_NUMBER(T)>                                     \
  void FUNCTION##InPlace(poplar::Graph &graph, const poplar::Tensor &A, const T B,          \
                         const poplar::Tensor &C, POPOPS_TAIL) {                            \
    core::elementWiseInto(graph, expr::NODE(expr::_1, expr::Const(B), expr::_2), {A, C}, A, \
                          POPOPS_PASS(FUNCTION##InPlace));                                  \
  }
POPOPS_TERNARY_NUMBERS(Select, select)
template <typename T, typename = POPOPS_IF_NUMBER(T)>
poplar::Tensor select(poplar::Graph &graph, const T A, const poplar::Tensor &B,
                      const poplar::Tensor &C, POPOPS_TAIL) {
  return core::elementWise(graph, expr::Select(expr::Const(A), expr::_1, expr::_2), {B, C},
                           POPOPS_PASS(select));
}
template <typename T, typename = POPOPS_IF_NUMBER(T)>
poplar::Tensor select(poplar::Graph &graph, const T A, const T B, const poplar::Tensor &C,
                      POPOPS_TAIL) {
  return core::elementWise(graph, expr::Select(expr::Const(A), expr::Const(B), expr::_1), {C},
                           POPOPS_PASS(select));
}

#undef POPOPS_TERNARY_NUMBERS
#undef POPOPS_TERNARY
#undef POPOPS_BINARY
#undef POPOPS_IF_NUMBER
#undef POPOPS_UNARY
#undef POPOPS_NEW_UNARY
#undef POPOPS_PASS
#undef POPOPS_TAIL

/// The variance, plus `epsilon`, to the power of -1/2, in another type.
poplar::Tensor varianceToInvStdDev(poplar::Graph &graph, const poplar::Tensor &src,
                                   const poplar::Tensor &epsilon, poplar::program::Sequence &prog,
                                   const poplar::Type dstType,
                                   const poplar::DebugContext &debugContext = {},
                                   const poplar::OptionFlags &options = {});
poplar::Tensor varianceToInvStdDev(poplar::Graph &graph, const poplar::Tensor &src,
                                   const float epsilon, poplar::program::Sequence &prog,
                                   const poplar::Type dstType,
                                   const poplar::DebugContext &debugContext = {},
                                   const poplar::OptionFlags &options = {});
/// The inverse of that.
poplar::Tensor invStdDevToVariance(poplar::Graph &graph, const poplar::Tensor &src,
                                   const poplar::Tensor &epsilon, poplar::program::Sequence &prog,
                                   const poplar::Type dstType,
                                   const poplar::DebugContext &debugContext = {},
                                   const poplar::OptionFlags &options = {});
poplar::Tensor invStdDevToVariance(poplar::Graph &graph, const poplar::Tensor &src,
                                   const float epsilon, poplar::program::Sequence &prog,
                                   const poplar::Type dstType,
                                   const poplar::DebugContext &debugContext = {},
                                   const poplar::OptionFlags &options = {});

}  // namespace popops

#endif  // popops_ElementWise_hpp
