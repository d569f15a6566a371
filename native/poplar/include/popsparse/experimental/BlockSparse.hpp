// Softmax over the rows of block-sparse matrices.
#ifndef popsparse_experimental_BlockSparse_hpp
#define popsparse_experimental_BlockSparse_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <array>
#include <vector>

namespace popsparse {
namespace experimental {

/// Which elements of a matrix are zero besides the absent blocks.
enum class SubBlockMask { None = 0, ZeroUpperTriangle, ZeroLowerTriangle };

/// Softmax over the elements that each row has. Masked elements become zero.
///
/// @param sparseTensor blocks {number, rows * columns of a block}, by rows of blocks; those of a
///        group are together.
/// @param dim rows and columns of one matrix.
/// @param blockSize rows and columns of a block.
/// @param sparsity for each block of the matrices, row by row: 1 if it is there.
/// @param numGroups matrices, whose masks follow each other in `sparsity`.
poplar::Tensor bsSoftmax(poplar::Graph &graph, poplar::Tensor sparseTensor,
                         const std::array<int, 2> &dim, const std::array<int, 2> &blockSize,
                         const std::vector<unsigned char> &sparsity, SubBlockMask subBlockMaskType,
                         unsigned numGroups, poplar::program::Sequence &prog,
                         const poplar::DebugContext &debugContext = {});
poplar::Tensor bsSoftmax(poplar::Graph &graph, poplar::Tensor sparseTensor,
                         const std::array<int, 2> &dim, const std::array<int, 2> &blockSize,
                         const std::vector<unsigned char> &sparsity, SubBlockMask subBlockMaskType,
                         poplar::program::Sequence &prog,
                         const poplar::DebugContext &debugContext = {});

void bsSoftmaxInPlace(poplar::Graph &graph, poplar::Tensor sparseTensor,
                      const std::array<int, 2> &dim, const std::array<int, 2> &blockSize,
                      const std::vector<unsigned char> &sparsity, SubBlockMask subBlockMaskType,
                      unsigned numGroups, poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {});
void bsSoftmaxInPlace(poplar::Graph &graph, poplar::Tensor sparseTensor,
                      const std::array<int, 2> &dim, const std::array<int, 2> &blockSize,
                      const std::vector<unsigned char> &sparsity, SubBlockMask subBlockMaskType,
                      poplar::program::Sequence &prog,
                      const poplar::DebugContext &debugContext = {});

/// The gradient of the input, from the softmax and its gradient. The length of `sparsity` gives the
/// number of groups.
poplar::Tensor bsSoftmaxGrad(poplar::Graph &graph, poplar::Tensor sparseOut,
                             poplar::Tensor sparseOutGrad, const std::array<int, 2> &dim,
                             const std::array<int, 2> &blockSize,
                             const std::vector<unsigned char> &sparsity,
                             poplar::program::Sequence &prog,
                             const poplar::DebugContext &debugContext = {});
poplar::Tensor bsSoftmaxGrad(poplar::Graph &graph, poplar::Tensor sparseOut,
                             poplar::Tensor sparseOutGrad, const std::array<int, 2> &dim,
                             const std::array<int, 2> &blockSize,
                             const std::vector<unsigned char> &sparsity, unsigned numGroups,
                             poplar::program::Sequence &prog,
                             const poplar::DebugContext &debugContext = {});

}  // namespace experimental
}  // namespace popsparse

#endif  // popsparse_experimental_BlockSparse_hpp
