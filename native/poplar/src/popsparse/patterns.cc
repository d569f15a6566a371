// Patterns of sparse matrices on the host.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>

#include "popsparse/SparsePartitioner.hpp"
#include "popsparse/meta_info.h"
#include "poputil/call_site.h"
#include "poputil/exceptions.hpp"

namespace popsparse {

namespace core {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  throw poputil::poplibs_error("popsparse: " + message);
}

void CheckIndex(const char* name, size_t index, size_t size, size_t block) {
  if (index >= size) {
    Fail(std::string("a ") + name + " index is " + std::to_string(index) + "; the matrix has " +
         std::to_string(size) + " " + name + "s.");
  }
  if (index % block != 0) {
    Fail(std::string("a ") + name + " index is " + std::to_string(index) +
         "; expected a multiple of " + std::to_string(block) +
         ", as indices are those of the first " + name + " of a block.");
  }
}

// Sorts blocks by rows, then columns, and checks them.
Pattern Sorted(const std::vector<size_t>& rows, const std::vector<size_t>& columns,
               const MatrixSizes& sizes) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(rows[a], columns[a]) < std::tie(rows[b], columns[b]);
  });
  Pattern pattern;
  for (const size_t place : order) {
    CheckIndex("row", rows[place], sizes.rows, sizes.block[0]);
    CheckIndex("column", columns[place], sizes.columns, sizes.block[1]);
    pattern.rows.push_back(rows[place]);
    pattern.columns.push_back(columns[place]);
  }
  pattern.places = std::move(order);
  return pattern;
}

void CheckCount(size_t blocks, size_t values, const MatrixSizes& sizes) {
  const size_t block = sizes.block[0] * sizes.block[1];
  if (blocks * block == values) return;
  Fail("a matrix has " + std::to_string(values) + " values and " + std::to_string(blocks) +
       " blocks of " + std::to_string(block) + "; expected values for each block.");
}

// The index of the row, or column, of each block, from offsets of values.
std::vector<size_t> IndicesOf(const std::vector<size_t>& offsets, size_t blocks, size_t size,
                              size_t block, size_t block_size) {
  if (offsets.size() != size / block + 1 || offsets.front() != 0 ||
      offsets.back() != blocks * block_size) {
    Fail("offsets of a matrix with " + std::to_string(blocks * block_size) + " values are " +
         poputil::ShapeText(offsets) + "; expected " + std::to_string(size / block + 1) +
         " offsets from 0 to the number of values.");
  }
  std::vector<size_t> indices;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i + 1] < offsets[i]) Fail("offsets of a matrix decrease.");
    indices.insert(indices.end(), (offsets[i + 1] - offsets[i]) / block_size, i * block);
  }
  return indices;
}

size_t BlockSize(const MatrixSizes& sizes) { return sizes.block[0] * sizes.block[1]; }

}  // namespace

Pattern patternOfCoo(const std::vector<size_t>& rows, const std::vector<size_t>& columns,
                     size_t values, const MatrixSizes& sizes) {
  if (rows.size() != columns.size()) Fail("a matrix has other numbers of rows and of columns.");
  CheckCount(rows.size(), values, sizes);
  return Sorted(rows, columns, sizes);
}

Pattern patternOfCsr(const std::vector<size_t>& offsets, const std::vector<size_t>& columns,
                     size_t values, const MatrixSizes& sizes) {
  CheckCount(columns.size(), values, sizes);
  return Sorted(IndicesOf(offsets, columns.size(), sizes.rows, sizes.block[0], BlockSize(sizes)),
                columns, sizes);
}

Pattern patternOfCsc(const std::vector<size_t>& offsets, const std::vector<size_t>& rows,
                     size_t values, const MatrixSizes& sizes) {
  CheckCount(rows.size(), values, sizes);
  return Sorted(rows,
                IndicesOf(offsets, rows.size(), sizes.columns, sizes.block[1], BlockSize(sizes)),
                sizes);
}

std::vector<size_t> encode(const Pattern& pattern, size_t capacity) {
  const size_t count = pattern.rows.size();
  if (count > capacity) {
    Fail("a matrix has " + std::to_string(count) + " blocks; the parameters have room for " +
         std::to_string(capacity) + ". Create them with a larger ratio or number of values.");
  }
  std::vector<size_t> words = {count & kWordMask, count >> kWordBits};
  for (size_t i = 0; i < count; ++i) {
    for (const size_t index : {pattern.rows[i], pattern.columns[i]}) {
      words.push_back(index & kWordMask);
      words.push_back(index >> kWordBits);
    }
  }
  words.resize(WordsOf(capacity), 0);
  return words;
}

Pattern decode(const std::vector<size_t>& metaInfo) {
  const std::vector<BlockIndex> blocks =
      BlocksOf(metaInfo.data(), (metaInfo.size() - kHeaderWords) / kWordsOfBlock);
  Pattern pattern;
  for (const BlockIndex& block : blocks) {
    pattern.places.push_back(pattern.rows.size());
    pattern.rows.push_back(block.row);
    pattern.columns.push_back(block.column);
  }
  return pattern;
}

void checkBlocks(const std::array<size_t, 2>& given, const MatrixSizes& sizes) {
  if (given == sizes.block) return;
  Fail("a matrix has blocks of " + poputil::ShapeText({given[0], given[1]}) +
       "; the parameters have " + poputil::ShapeText({sizes.block[0], sizes.block[1]}) + ".");
}

std::vector<size_t> offsetsOf(const std::vector<size_t>& indices, size_t size, size_t block,
                              size_t blockSize) {
  std::vector<size_t> offsets(size / block + 1, 0);
  for (const size_t index : indices) offsets[index / block + 1] += blockSize;
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return offsets;
}

std::vector<size_t> columnOrder(const Pattern& pattern) {
  std::vector<size_t> order(pattern.columns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return pattern.columns[a] < pattern.columns[b]; });
  return order;
}

MatrixSizes sizesOf(const dynamic::MatMulParams& params) {
  return {params.getM(), params.getK(), params.getSparsityParams().blockDimensions};
}

MatrixSizes sizesOf(const dynamic::FullyConnectedParams& params) {
  return {params.getOutputChannels(), params.getInputChannels(),
          params.getSparsityParams().blockDimensions};
}

MatrixSizes sizesOf(const static_::MatMulParams& params) {
  if (params.isSparseDense()) return {params.getM(), params.getK(), {{1, 1}}};
  return {params.getK(), params.getM(), {{1, 1}}};
}

void checkDynamicOptions(const char* function, const poplar::OptionFlags& options) {
  const std::vector<const char*> flag = {"true", "false"};
  poputil::CheckOptions(function, options,
                        {{"availableMemoryProportion", {}},
                         {"metaInfoBucketOversizeProportion", {}},
                         {"partialsType", {"half", "float"}},
                         {"doGradAPass", flag},
                         {"doGradWPass", flag},
                         {"sharedBuckets", flag},
                         {"useActualWorkerSplitCosts", flag},
                         {"planConstraints", {}},
                         {"forceBucketSpills", flag}});
}

void checkStaticOptions(const char* function, const poplar::OptionFlags& options) {
  poputil::CheckOptions(function, options,
                        {{"availableMemoryProportion", {}},
                         {"partialsType", {"half", "float"}},
                         {"verboseLogging", {"true", "false"}}});
}

}  // namespace core

namespace {

using Size = size_t;

void CheckRatio(double ratio) {
  if (ratio >= 0 && ratio <= 1) return;
  core::Fail("the ratio of values that are not zero is " + std::to_string(ratio) +
             "; expected 0 to 1.");
}

// Values for a ratio, in whole blocks.
Size ValuesOf(const dynamic::SparsityParams& sparsity, double ratio, Size rows, Size columns) {
  CheckRatio(ratio);
  const double blocks = std::ceil(ratio * static_cast<double>(rows * columns) /
                                      static_cast<double>(sparsity.blockSize()) -
                                  1e-9);
  return static_cast<Size>(blocks) * sparsity.blockSize();
}

void CheckGroups(Size groups) {
  if (groups == 1) return;
  core::Fail("a sparse product has " + std::to_string(groups) +
             " groups; expected 1. Make a product for each group.");
}

void CheckMatrix(const dynamic::SparsityParams& sparsity, Size rows, Size columns) {
  const auto& block = sparsity.blockDimensions;
  if (block[0] != 0 && block[1] != 0 && rows % block[0] == 0 && columns % block[1] == 0) return;
  core::Fail("a matrix " + poputil::ShapeText({rows, columns}) + " is not made of blocks of " +
             poputil::ShapeText({block[0], block[1]}) + ".");
}

}  // namespace

namespace dynamic {

MatMulParams MatMulParams::createWithNzRatio(const SparsityParams& sparsityParams, double nzRatio,
                                             Size groups, Size m, Size k, Size n) {
  CheckMatrix(sparsityParams, m, k);
  return createWithNumNonZeroValues(sparsityParams, ValuesOf(sparsityParams, nzRatio, m, k), groups,
                                    m, k, n);
}

MatMulParams MatMulParams::createWithNumNonZeroValues(const SparsityParams& sparsityParams,
                                                      Size numNonZeroElems, Size groups, Size m,
                                                      Size k, Size n) {
  CheckGroups(groups);
  CheckMatrix(sparsityParams, m, k);
  MatMulParams params;
  params.sparsity_ = sparsityParams;
  params.nonZeros_ = numNonZeroElems;
  params.groups_ = groups;
  params.m_ = m;
  params.k_ = k;
  params.n_ = n;
  return params;
}

double MatMulParams::getNzRatio() const {
  return static_cast<double>(nonZeros_) / static_cast<double>(m_ * k_);
}

FullyConnectedParams FullyConnectedParams::createWithNzRatio(const SparsityParams& sparsityParams,
                                                             double nzRatio, Size batchSize,
                                                             Size numGroups, Size inputChannels,
                                                             Size outputChannels) {
  CheckMatrix(sparsityParams, outputChannels, inputChannels);
  return createWithNumNonZeroValues(
      sparsityParams, ValuesOf(sparsityParams, nzRatio, outputChannels, inputChannels), batchSize,
      numGroups, inputChannels, outputChannels);
}

FullyConnectedParams FullyConnectedParams::createWithNumNonZeroValues(
    const SparsityParams& sparsityParams, Size numNonZeroElems, Size batchSize, Size numGroups,
    Size inputChannels, Size outputChannels) {
  CheckGroups(numGroups);
  CheckMatrix(sparsityParams, outputChannels, inputChannels);
  FullyConnectedParams params;
  params.sparsity_ = sparsityParams;
  params.nonZeros_ = numNonZeroElems;
  params.batch_ = batchSize;
  params.groups_ = numGroups;
  params.in_ = inputChannels;
  params.out_ = outputChannels;
  return params;
}

double FullyConnectedParams::getNzRatio() const {
  return static_cast<double>(nonZeros_) / static_cast<double>(in_ * out_);
}

std::ostream& operator<<(std::ostream& os, const SparsityType& type) {
  return os << (type == SparsityType::Element ? "Element" : "Block");
}

std::ostream& operator<<(std::ostream& os, const SparsityStructure&) {
  return os << "Unstructured";
}

std::ostream& operator<<(std::ostream& os, const SparsityParams& params) {
  return os << params.type << ", " << params.structure << ", blocks of {"
            << params.blockDimensions[0] << "," << params.blockDimensions[1] << "}";
}

std::ostream& operator<<(std::ostream& os, const MatMulParams& params) {
  return os << "groups " << params.getNumGroups() << ", m " << params.getM() << ", k "
            << params.getK() << ", n " << params.getN() << ", values "
            << params.getNumNonZeroValues() << ", " << params.getSparsityParams();
}

std::ostream& operator<<(std::ostream& os, const FullyConnectedParams& params) {
  return os << "batch " << params.getBatchSize() << ", groups " << params.getNumGroups()
            << ", channels " << params.getInputChannels() << " to " << params.getOutputChannels()
            << ", values " << params.getNumNonZeroValues() << ", " << params.getSparsityParams();
}

}  // namespace dynamic

namespace static_ {

MatMulParams MatMulParams::createForSparseDense(Size groups, Size m, Size k, Size n) {
  CheckGroups(groups);
  MatMulParams params;
  params.groups_ = groups;
  params.m_ = m;
  params.k_ = k;
  params.n_ = n;
  return params;
}

MatMulParams MatMulParams::createForDenseSparse(Size groups, Size n, Size k, Size m) {
  MatMulParams params = createForSparseDense(groups, m, k, n);
  params.sparseDense_ = false;
  return params;
}

std::ostream& operator<<(std::ostream& os, const MatMulParams& params) {
  return os << "groups " << params.getNumGroups() << ", m " << params.getM() << ", k "
            << params.getK() << ", n " << params.getN();
}

}  // namespace static_
}  // namespace popsparse
