// Elementwise functions and expressions by name.
#ifndef TESTS_FRONTENDS_POPLAR_POPOPS_ELEMENTWISE_HPP_
#define TESTS_FRONTENDS_POPLAR_POPOPS_ELEMENTWISE_HPP_

#include <popops/ElementWise.hpp>
#include <popops/ElementWiseUtil.hpp>
#include <popops/Expr.hpp>
#include <popops/codelets.hpp>

#include "../harness.hpp"

using harness::Arguments;
using poplar::Tensor;
namespace pe = popops::expr;

// Text such as `( ADD _1 ( CAST int #2.5 ) )`.
inline pe::Any parseExpression(Arguments &a) {
  const std::string word = a.word();
  if (word[0] == '_') return pe::PlaceHolder(static_cast<unsigned>(std::stoul(word.substr(1))));
  if (word[0] == '#') {
    if (word.find('.') != std::string::npos) return pe::Const(std::stof(word.substr(1)));
    return pe::Const(std::stoi(word.substr(1)));
  }
  const std::string op = a.word();
  const auto end = [&a](const pe::Expr &node) {
    a.word();
    return pe::Any(node);
  };
  if (op == "CAST") {
    const poplar::Type type = a.type();
    return end(pe::Cast(parseExpression(a), type));
  }
  for (int i = 0; !pe::toString(static_cast<pe::UnaryOpType>(i)).empty(); ++i) {
    const auto type = static_cast<pe::UnaryOpType>(i);
    if (op == pe::toString(type)) return end(pe::UnaryOp(type, parseExpression(a)));
  }
  const pe::Any first = parseExpression(a), second = parseExpression(a);
  for (int i = 0; !pe::toString(static_cast<pe::BinaryOpType>(i)).empty(); ++i) {
    const auto type = static_cast<pe::BinaryOpType>(i);
    if (op == pe::toString(type)) return end(pe::BinaryOp(type, first, second));
  }
  const auto type = op == "SELECT" ? pe::TernaryOpType::SELECT : pe::TernaryOpType::CLAMP;
  return end(pe::TernaryOp(type, first, second, parseExpression(a)));
}

// Expressions that are written with operators, by number.
inline pe::Any written(unsigned index) {
  using namespace popops::expr;
  switch (index) {
    case 0:
      return _1 * 2.0f + _2;
    case 1:
      return 1 - _1 / _2;
    case 2:
      return Select(_1, -_2, _1 > _2 || _1 < -1.0f);
    case 3:
      return Cast(_1 >= 0.5f && !(_2 == _1), poplar::FLOAT);
    case 4:
      return Max(_1, Const(0.25f)) - Min(_2, Const(0)) * Sqrt(Abs(_1)) + Exp(Sin(_2));
    case 5:
      return Clamp(_1, Const(-0.5), Const(0.5)) * Select(Const(1), Const(-1), _2 > 0);
    default:
      return Any(_2 * _1) + Square(_2);
  }
}

inline void addElementwise(harness::Functions &f) {
#define UNARY(OP, NODE, NAME)                                                        \
  f[#NAME] = [](Arguments &a) { return popops::NAME(a.graph, a.tensor(), a.prog); }; \
  f[#NAME "WithOutput"] = [](Arguments &a) {                                         \
    const Tensor in = a.tensor();                                                    \
    popops::NAME##WithOutput(a.graph, in, a.tensor(), a.prog, #NAME);                \
    return Tensor();                                                                 \
  };
#define UNARY_IN_PLACE(OP, NODE, NAME)                  \
  UNARY(OP, NODE, NAME)                                 \
  f[#NAME "InPlace"] = [](Arguments &a) {               \
    popops::NAME##InPlace(a.graph, a.tensor(), a.prog); \
    return Tensor();                                    \
  };
  POPOPS_UNARY_OPS(UNARY_IN_PLACE)
  POPOPS_UNARY_PREDICATES(UNARY)

#define BINARY(OP, NODE, NAME)                                                        \
  f[#NAME] = [](Arguments &a) {                                                       \
    if (a.isNumber()) {                                                               \
      const float number = static_cast<float>(a.number());                            \
      return popops::NAME(a.graph, number, a.tensor(), a.prog);                       \
    }                                                                                 \
    const Tensor first = a.tensor();                                                  \
    if (a.isNumber()) return popops::NAME(a.graph, first, a.number(), a.prog, #NAME); \
    return popops::NAME(a.graph, first, a.tensor(), a.prog, {"name"});                \
  };                                                                                  \
  f[#NAME "InPlace"] = [](Arguments &a) {                                             \
    const Tensor first = a.tensor();                                                  \
    if (a.isNumber()) {                                                               \
      popops::NAME##InPlace(a.graph, first, a.number(), a.prog);                      \
    } else {                                                                          \
      popops::NAME##InPlace(a.graph, first, a.tensor(), a.prog);                      \
    }                                                                                 \
    return Tensor();                                                                  \
  };                                                                                  \
  f[#NAME "WithOutput"] = [](Arguments &a) {                                          \
    const Tensor first = a.tensor();                                                  \
    if (a.isNumber()) {                                                               \
      const int number = static_cast<int>(a.number());                                \
      popops::NAME##WithOutput(a.graph, first, number, a.tensor(), a.prog);           \
    } else {                                                                          \
      const Tensor second = a.tensor();                                               \
      popops::NAME##WithOutput(a.graph, first, second, a.tensor(), a.prog);           \
    }                                                                                 \
    return Tensor();                                                                  \
  };
  POPOPS_BINARY_OPS(BINARY)

#define TERNARY(OP, NODE, NAME)                                                  \
  f[#NAME] = [](Arguments &a) {                                                  \
    const Tensor first = a.tensor(), second = a.tensor();                        \
    return popops::NAME(a.graph, first, second, a.tensor(), a.prog);             \
  };                                                                             \
  f[#NAME "InPlace"] = [](Arguments &a) {                                        \
    const Tensor first = a.tensor(), second = a.tensor();                        \
    popops::NAME##InPlace(a.graph, first, second, a.tensor(), a.prog);           \
    return Tensor();                                                             \
  };                                                                             \
  f[#NAME "WithOutput"] = [](Arguments &a) {                                     \
    const Tensor first = a.tensor(), second = a.tensor(), third = a.tensor();    \
    popops::NAME##WithOutput(a.graph, first, second, third, a.tensor(), a.prog); \
    return Tensor();                                                             \
  };
  POPOPS_TERNARY_OPS(TERNARY)
#undef UNARY
#undef UNARY_IN_PLACE
#undef BINARY
#undef TERNARY

  f["selectNumbers"] = [](Arguments &a) {
    return popops::select(a.graph, 1.0f, -1.0f, a.tensor(), a.prog);
  };
  f["map"] = [](Arguments &a) {
    const std::vector<Tensor> ts = a.tensorList();
    popops::addCodelets(a.graph);
    return popops::map(a.graph, parseExpression(a), ts, a.prog, {"map"});
  };
  f["mapInPlace"] = [](Arguments &a) {
    const std::vector<Tensor> ts = a.tensorList();
    popops::mapInPlace(a.graph, parseExpression(a), ts, a.prog);
    return Tensor();
  };
  f["mapWithOutput"] = [](Arguments &a) {
    const std::vector<Tensor> ts = a.tensorList();
    const Tensor out = a.tensor();
    popops::mapWithOutput(a.graph, parseExpression(a), ts, out, a.prog, "map");
    return Tensor();
  };
  f["mapWritten"] = [](Arguments &a) {
    const std::vector<Tensor> ts = a.tensorList();
    return popops::map(a.graph, written(a.natural()), ts, a.prog);
  };
  // Whether an expression in classes equals one with operators.
  f["deepEquals"] = [](Arguments &a) {
    const unsigned index = a.natural();
    const bool equal = pe::deepEquals(parseExpression(a), written(index));
    const Tensor result = a.graph.addConstant(poplar::BOOL, {}, equal);
    a.graph.setTileMapping(result, 0);
    return result;
  };
  f["mapUnaryOp"] = [](Arguments &a) {
    return popops::map(a.graph, pe::UnaryOpType::SQUARE, a.tensor(), a.prog);
  };
  f["mapBinaryOp"] = [](Arguments &a) {
    const Tensor first = a.tensor();
    return popops::map(a.graph, pe::BinaryOpType::SUBTRACT, first, a.tensor(), a.prog);
  };
  f["mapTernaryOp"] = [](Arguments &a) {
    const Tensor first = a.tensor(), second = a.tensor();
    return popops::map(a.graph, pe::TernaryOpType::CLAMP, first, second, a.tensor(), a.prog);
  };
  f["mapInPlaceUnaryOp"] = [](Arguments &a) {
    popops::mapInPlace(a.graph, pe::UnaryOpType::NEGATE, a.tensor(), a.prog);
    return Tensor();
  };
  f["mapInPlaceBinaryOp"] = [](Arguments &a) {
    const Tensor first = a.tensor();
    popops::mapInPlace(a.graph, pe::BinaryOpType::MULTIPLY, first, a.tensor(), a.prog);
    return Tensor();
  };
  f["mapSeveral"] = [](Arguments &a) {
    const std::vector<pe::Any> exprs = {pe::_1 + pe::_2, pe::_1 - pe::_2};
    return poplar::concat(popops::map(a.graph, exprs, a.tensorList(), a.prog));
  };
  f["varianceToInvStdDevOfType"] = [](Arguments &a) {
    const Tensor variance = a.tensor();
    const float epsilon = static_cast<float>(a.number());
    return popops::varianceToInvStdDev(a.graph, variance, epsilon, a.prog, a.type());
  };
  f["invStdDevToVarianceOfType"] = [](Arguments &a) {
    const Tensor deviation = a.tensor(), epsilon = a.tensor();
    return popops::invStdDevToVariance(a.graph, deviation, epsilon, a.prog, a.type());
  };
  f["addWithUnknownOption"] = [](Arguments &a) {
    const Tensor t = a.tensor();
    return popops::add(a.graph, t, t, a.prog, {}, {{"unknown", "true"}});
  };
  f["createOutputForElementWiseOp"] = [](Arguments &a) {
    const std::vector<Tensor> ts = a.tensorList();
    return popops::createOutputForElementWiseOp(a.graph, ts, a.type());
  };
}

#endif  // TESTS_FRONTENDS_POPLAR_POPOPS_ELEMENTWISE_HPP_
