// Expressions with a type for each node, as text that a kernel reads.
#ifndef TENSORFLOW_IPU_POPOPS_TYPED_EXPRESSION_H_
#define TENSORFLOW_IPU_POPOPS_TYPED_EXPRESSION_H_

#include <string>
#include <vector>

#include "popops/Expr.hpp"
#include "poputil/call.h"

namespace popops {

// Nodes in postfix order, separated by spaces:
//   $0               an element of an input
//   #f32:0x1p+0      a number
//   U:SQRT:f32       an operation of one, two (B) or three (T) operands, and their type
//   C:f32:i32        a cast from a type to another
struct TypedExpression {
  std::string text;
  poplar::Type type;
  // Of the tensors that an expression was given: `$i` is that of `used[i]`.
  std::vector<unsigned> used;
};

// Gives each node a type. Numbers take that of what they are combined with, or `wanted`.
TypedExpression TypesOf(const expr::Expr& expression, const std::vector<poplar::Tensor>& tensors,
                        const poplar::Type* wanted, const poputil::Call& call);

}  // namespace popops

#endif  // TENSORFLOW_IPU_POPOPS_TYPED_EXPRESSION_H_
