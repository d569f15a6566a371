// Products with a block-sparse operand or result, whose blocks are known when a program is built.
#ifndef popsparse_experimental_BlockSparseMatMul_hpp
#define popsparse_experimental_BlockSparseMatMul_hpp

#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popsparse/experimental/BlockSparse.hpp>

#include <array>
#include <memory>
#include <vector>

namespace popsparse {
namespace experimental {

class BSMatMulImpl;

/// Sizes, types and blocks of a product.
class BSMatMulParams {
 public:
  /// Dense times sparse is dense.
  ///
  /// @param dim rows of the left matrix, its columns, columns of the product.
  /// @param blockSize the same of blocks.
  /// @param rhsSparsity for each block of the right matrix as it is stored, row by row: 1 if it is
  ///        there. Masks of groups follow each other.
  /// @param rhsNeedTranspose whether the right matrix is stored with the columns of the product as
  ///        its rows.
  BSMatMulParams(const std::array<int, 3> &dim, const std::array<int, 3> &blockSize,
                 const std::vector<unsigned char> &rhsSparsity, bool rhsNeedTranspose,
                 poplar::Type inDataType, poplar::Type outDataType, poplar::Type partialDataType,
                 unsigned numGroupsIn = 1);
  /// Dense times dense is sparse.
  ///
  /// @param resSparsity for each block of the product, row by row: 1 if it is computed.
  /// @param subBlockMask which elements of the product become zero.
  BSMatMulParams(const std::array<int, 3> &dim, const std::array<int, 3> &blockSize,
                 const std::vector<unsigned char> &resSparsity, poplar::Type inDataType,
                 poplar::Type outDataType, poplar::Type partialDataType,
                 SubBlockMask subBlockMask = SubBlockMask::None, unsigned numGroupsIn = 1);
  BSMatMulParams(BSMatMulParams &&other);
  ~BSMatMulParams();

  std::unique_ptr<BSMatMulImpl> impl;
};

/// The left matrix: {rows, columns}, or {groups, rows, columns} for several groups.
poplar::Tensor createBSMatMulInputLHS(poplar::Graph &graph, const BSMatMulParams &bsMatMul,
                                      const poplar::DebugContext &debugContext,
                                      const poplar::OptionFlags &options = {});

/// The right matrix: blocks {number, area of a block}, or a dense one as on the left.
poplar::Tensor createBSMatMulInputRHS(poplar::Graph &graph, const BSMatMulParams &bsMatMul,
                                      const poplar::DebugContext &debugContext,
                                      const poplar::OptionFlags &options = {});

/// The product: dense, or blocks {number, area of a block}.
///
/// Dense operands of several groups may also have the rows of the groups one after the other,
/// {groups * rows, columns}. A dense product has the form of the left matrix.
poplar::Tensor bsMatMul(poplar::Graph &graph, const BSMatMulParams &bsMatMulParams,
                        poplar::program::Sequence &prog, const poplar::Tensor &lhsMatrix,
                        const poplar::Tensor &rhsMatrix, const poplar::OptionFlags &options = {},
                        const poplar::DebugContext &debugContext = {});

}  // namespace experimental
}  // namespace popsparse

#endif  // popsparse_experimental_BlockSparseMatMul_hpp
