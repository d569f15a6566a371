// Operations on blocks of elements.
#ifndef TENSORFLOW_IPU_POPOPS_BLOCK_FUNCTIONS_H_
#define TENSORFLOW_IPU_POPOPS_BLOCK_FUNCTIONS_H_

#include <cstddef>
#include <string>

#include "poplar/Type.hpp"
#include "popops/ExprOp.hpp"

namespace popops {

// Types that blocks are computed in. A half is a float that is rounded after each operation.
enum class Element { kFloat, kHalf, kBool, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64 };

// Throws poplibs_error for types without operations.
Element ElementOf(const poplar::Type& type);
// A word for an element type in the text of an expression, and back.
const char* CodeOf(Element element);
Element ElementOfCode(const std::string& code);
// Bytes of an element in a block, and in a tensor.
size_t BlockSizeOf(Element element);
size_t TensorSizeOf(Element element);

// Computes `count` elements. Blocks of inputs may be the block of the output, or apart.
using BlockFunction = void (*)(const void* const* inputs, void* output, size_t count);

// An operation on blocks.
struct BlockOp {
  BlockFunction function = nullptr;
  // What an element takes on the host, in additions of floats.
  size_t host_cost = 1;
};

// Each is without a function where the operation does not exist for the type of its operands.
BlockOp FindBlockOp(expr::UnaryOpType op, Element element);
BlockOp FindBlockOp(expr::BinaryOpType op, Element element);
BlockOp FindBlockOp(expr::TernaryOpType op, Element element);
// Null where there is no such cast.
BlockFunction FindBlockCast(Element from, Element to);

// Whether an operation gives BOOL, whatever its operands are.
bool IsPredicate(expr::UnaryOpType op);
bool IsPredicate(expr::BinaryOpType op);

}  // namespace popops

#endif  // TENSORFLOW_IPU_POPOPS_BLOCK_FUNCTIONS_H_
