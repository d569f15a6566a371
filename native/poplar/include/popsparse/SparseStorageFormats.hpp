// Sparse matrices of the host.
//
// Values are blocks in row-major order; a block of {1, 1} is an element. Indices are those of the
// first row or column of a block, and offsets count values.
#ifndef popsparse_SparseStorageFormats_hpp
#define popsparse_SparseStorageFormats_hpp

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace popsparse {

/// What the formats share.
template <typename T>
struct SparseMatrix {
  std::vector<T> nzValues;
  std::vector<std::size_t> columnIndices;
  std::vector<std::size_t> rowIndices;
  /// Sizes of the matrix, or 0 where they were not given.
  std::size_t numRows = 0, numColumns = 0;

  SparseMatrix() = default;
  SparseMatrix(std::vector<T> values, std::vector<std::size_t> columns,
               std::vector<std::size_t> rows, const std::array<std::size_t, 2> &blockDimensions)
      : nzValues(std::move(values)),
        columnIndices(std::move(columns)),
        rowIndices(std::move(rows)),
        blockDimensions_(blockDimensions) {}

  std::size_t getBlockSize() const { return blockDimensions_[0] * blockDimensions_[1]; }
  std::size_t getNumRowsInBlock() const { return blockDimensions_[0]; }
  std::size_t getNumColumnsInBlock() const { return blockDimensions_[1]; }
  std::array<std::size_t, 2> getBlockDimensions() const { return blockDimensions_; }

 private:
  std::array<std::size_t, 2> blockDimensions_{{1, 1}};
};

#define POPSPARSE_DECLARE_FORMAT(NAME)                                                           \
  template <typename T>                                                                          \
  struct NAME : SparseMatrix<T> {                                                                \
    NAME() = default;                                                                            \
    NAME(std::vector<T> values, std::vector<std::size_t> columns, std::vector<std::size_t> rows, \
         const std::array<std::size_t, 2> &blockDimensions = {{1, 1}})                           \
        : SparseMatrix<T>(std::move(values), std::move(columns), std::move(rows),                \
                          blockDimensions) {}                                                    \
    NAME(std::size_t rowCount, std::size_t columnCount, std::vector<T> values,                   \
         std::vector<std::size_t> columns, std::vector<std::size_t> rows,                        \
         const std::array<std::size_t, 2> &blockDimensions = {{1, 1}})                           \
        : NAME(std::move(values), std::move(columns), std::move(rows), blockDimensions) {        \
      this->numRows = rowCount;                                                                  \
      this->numColumns = columnCount;                                                            \
    }                                                                                            \
  };

/// Row and column of each block.
POPSPARSE_DECLARE_FORMAT(COOMatrix)
/// The column of each block, and the offset of each row of blocks.
POPSPARSE_DECLARE_FORMAT(CSRMatrix)
/// The row of each block, and the offset of each column of blocks.
POPSPARSE_DECLARE_FORMAT(CSCMatrix)

#undef POPSPARSE_DECLARE_FORMAT

}  // namespace popsparse

#endif  // popsparse_SparseStorageFormats_hpp
