// From sparse matrices of the host to data of the device, and back.
#ifndef popsparse_SparsePartitioner_hpp
#define popsparse_SparsePartitioner_hpp

#include <poplar/OptionFlags.hpp>
#include <poplar/Target.hpp>
#include <poplar/Type.hpp>
#include <popsparse/FullyConnectedParams.hpp>
#include <popsparse/MatMulParams.hpp>
#include <popsparse/PlanningCache.hpp>
#include <popsparse/SparseStorageFormats.hpp>
#include <popsparse/SparseTensor.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace popsparse {

namespace core {

/// Blocks of a matrix in the order of rows: the row and column of each, and the place of its values
/// in the order in which they were given.
struct Pattern {
  std::vector<std::size_t> rows, columns, places;
};

Pattern patternOfCoo(const std::vector<std::size_t> &rows, const std::vector<std::size_t> &columns,
                     std::size_t values, const MatrixSizes &sizes);
Pattern patternOfCsr(const std::vector<std::size_t> &offsets,
                     const std::vector<std::size_t> &columns, std::size_t values,
                     const MatrixSizes &sizes);
Pattern patternOfCsc(const std::vector<std::size_t> &offsets, const std::vector<std::size_t> &rows,
                     std::size_t values, const MatrixSizes &sizes);

/// Words of 16 bits that stand for a pattern, for up to `capacity` blocks.
std::vector<std::size_t> encode(const Pattern &pattern, std::size_t capacity);
Pattern decode(const std::vector<std::size_t> &metaInfo);

/// Throws poplibs_error for a matrix with other blocks.
void checkBlocks(const std::array<std::size_t, 2> &given, const MatrixSizes &sizes);
/// Offsets of the rows, or columns, of blocks of sorted indices.
std::vector<std::size_t> offsetsOf(const std::vector<std::size_t> &indices, std::size_t size,
                                   std::size_t block, std::size_t blockSize);
/// The order of blocks by columns.
std::vector<std::size_t> columnOrder(const Pattern &pattern);
/// Values of blocks in another order.
template <typename T>
std::vector<T> ordered(const std::vector<T> &values, const std::vector<std::size_t> &places,
                       std::size_t blockSize) {
  std::vector<T> result;
  result.reserve(places.size() * blockSize);
  for (std::size_t place : places) {
    result.insert(result.end(), values.begin() + place * blockSize,
                  values.begin() + (place + 1) * blockSize);
  }
  return result;
}

MatrixSizes sizesOf(const dynamic::MatMulParams &params);
MatrixSizes sizesOf(const dynamic::FullyConnectedParams &params);
/// With blocks of {1, 1}: those of a static pattern are of the matrix.
MatrixSizes sizesOf(const static_::MatMulParams &params);

void checkDynamicOptions(const char *function, const poplar::OptionFlags &options);
void checkStaticOptions(const char *function, const poplar::OptionFlags &options);

/// Conversions of both kinds of partitioners.
template <typename T, typename Data>
class Converter {
 public:
  Data createSparsityDataImpl(const COOMatrix<T> &matrix) const {
    const MatrixSizes sizes = checked(matrix);
    return dataOf(
        patternOfCoo(matrix.rowIndices, matrix.columnIndices, matrix.nzValues.size(), sizes),
        matrix);
  }
  Data createSparsityDataImpl(const CSRMatrix<T> &matrix) const {
    const MatrixSizes sizes = checked(matrix);
    return dataOf(
        patternOfCsr(matrix.rowIndices, matrix.columnIndices, matrix.nzValues.size(), sizes),
        matrix);
  }
  Data createSparsityDataImpl(const CSCMatrix<T> &matrix) const {
    const MatrixSizes sizes = checked(matrix);
    return dataOf(
        patternOfCsc(matrix.columnIndices, matrix.rowIndices, matrix.nzValues.size(), sizes),
        matrix);
  }

  COOMatrix<T> sparsityDataImplToCOOMatrix(const Data &data) const {
    const Pattern pattern = decode(data.metaInfo);
    return COOMatrix<T>(sizes_.rows, sizes_.columns, values(data, pattern), pattern.columns,
                        pattern.rows, sizes_.block);
  }
  CSRMatrix<T> sparsityDataImplToCSRMatrix(const Data &data) const {
    const Pattern pattern = decode(data.metaInfo);
    return CSRMatrix<T>(sizes_.rows, sizes_.columns, values(data, pattern), pattern.columns,
                        offsetsOf(pattern.rows, sizes_.rows, sizes_.block[0], blockSize()),
                        sizes_.block);
  }
  CSCMatrix<T> sparsityDataImplToCSCMatrix(const Data &data) const {
    const Pattern pattern = decode(data.metaInfo);
    const std::vector<std::size_t> order = columnOrder(pattern);
    std::vector<std::size_t> rows, columns;
    for (std::size_t place : order) {
      rows.push_back(pattern.rows[place]);
      columns.push_back(pattern.columns[place]);
    }
    return CSCMatrix<T>(sizes_.rows, sizes_.columns, ordered(data.nzValues, order, blockSize()),
                        offsetsOf(columns, sizes_.columns, sizes_.block[1], blockSize()), rows,
                        sizes_.block);
  }

 protected:
  /// Without a capacity, data are as large as the matrix.
  Converter(const MatrixSizes &sizes, std::size_t capacity) : sizes_(sizes), capacity_(capacity) {}

 private:
  std::size_t blockSize() const { return sizes_.block[0] * sizes_.block[1]; }

  template <typename Matrix>
  MatrixSizes checked(const Matrix &matrix) const {
    if (capacity_ == 0) sizes_.block = matrix.getBlockDimensions();
    checkBlocks(matrix.getBlockDimensions(), sizes_);
    return sizes_;
  }

  template <typename Matrix>
  Data dataOf(const Pattern &pattern, const Matrix &matrix) const {
    Data data;
    const std::size_t blocks = capacity_ == 0 ? pattern.rows.size() : capacity_;
    data.metaInfo = encode(pattern, blocks);
    data.nzValues = ordered(matrix.nzValues, pattern.places, blockSize());
    data.nzValues.resize(blocks * blockSize(), T(0));
    return data;
  }

  std::vector<T> values(const Data &data, const Pattern &pattern) const {
    return std::vector<T>(data.nzValues.begin(),
                          data.nzValues.begin() + pattern.rows.size() * blockSize());
  }

  mutable MatrixSizes sizes_;
  std::size_t capacity_;  // blocks
};

}  // namespace core

namespace dynamic {

/// Data to write to the tensors of a SparseTensor. Words of `metaInfo` fit UNSIGNED_SHORT.
template <typename T>
struct SparsityDataImpl {
  std::vector<std::size_t> metaInfo;
  std::vector<T> nzValues;
};

/// Converts matrices for a product or layer.
template <typename T>
class Partitioner : public core::Converter<T, SparsityDataImpl<T>> {
 public:
  Partitioner(const MatMulParams &params, const poplar::Type &, const poplar::Target &,
              const poplar::OptionFlags &options, PlanningCache * = nullptr, std::string name = "")
      : core::Converter<T, SparsityDataImpl<T>>(
            core::sizesOf(params),
            params.getNumNonZeroValues() / params.getSparsityParams().blockSize()),
        name_(name) {
    core::checkDynamicOptions("popsparse::dynamic::Partitioner", options);
  }
  Partitioner(const FullyConnectedParams &params, const poplar::Type &, const poplar::Target &,
              const poplar::OptionFlags &options, PlanningCache * = nullptr, std::string name = "")
      : core::Converter<T, SparsityDataImpl<T>>(
            core::sizesOf(params),
            params.getNumNonZeroValues() / params.getSparsityParams().blockSize()),
        name_(name) {
    core::checkDynamicOptions("popsparse::dynamic::Partitioner", options);
  }

 private:
  std::string name_;
};

}  // namespace dynamic

namespace static_ {

/// Values in the order of the device.
template <typename T>
struct SparsityDataImpl {
  std::vector<std::size_t> metaInfo;
  std::vector<T> nzValues;
};

/// Converts matrices for a product.
template <typename T>
class Partitioner : public core::Converter<T, SparsityDataImpl<T>> {
 public:
  Partitioner(const MatMulParams &params, const poplar::Type &, const poplar::Target &,
              const poplar::OptionFlags &options, PlanningCache * = nullptr, std::string name = "")
      : core::Converter<T, SparsityDataImpl<T>>(core::sizesOf(params), 0), name_(name) {
    core::checkStaticOptions("popsparse::static_::Partitioner", options);
  }

 private:
  std::string name_;
};

}  // namespace static_
}  // namespace popsparse

#endif  // popsparse_SparsePartitioner_hpp
