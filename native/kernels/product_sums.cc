#include "kernels/product_sums.h"

#include <algorithm>
#include <cmath>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "tensorflow/core/lib/core/threadpool.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr int kRows = PackedProduct::kRows, kColumns = PackedProduct::kColumns;
// Blocks in a row of the output that are made one after the other: as many as the memory of the
// factors of 16 replicas stays in the fastest cache.
constexpr int64_t kBlocksInRow = 4;
// Rows of blocks that one thread makes at a time.
constexpr int64_t kRowsOfBlocks = 8;
// Multiplications that a core does in a cycle, roughly: what ParallelFor divides work by.
constexpr int64_t kMultiplicationsPerCycle = 8;

int64_t Blocks(int64_t size, int64_t width) { return (size + width - 1) / width; }

// Copies a matrix of `size` columns and `depth` rows, whose elements are at the distances `step`
// and `down`, in blocks of `width` columns. The last block is padded with zeros.
void PackBlocks(const float* matrix, int64_t size, int64_t step, int64_t depth, int64_t down,
                int64_t width, float* packed) {
  for (int64_t first = 0; first < size; first += width) {
    const int64_t count = std::min(width, size - first);
    for (int64_t k = 0; k < depth; ++k, packed += width) {
      const float* row = matrix + first * step + k * down;
      for (int64_t i = 0; i < count; ++i) packed[i] = row[i * step];
      std::fill(packed + count, packed + width, 0.0f);
    }
  }
}

// A block of the output while products are added to it.
using Block = float[kRows][kColumns];

#ifdef __x86_64__

// Adds the block at a place of each product to `sum`; the first is the sum if it `begins`.
__attribute__((target("avx2,fma"))) void AddToBlock(absl::Span<const PackedProduct> products,
                                                    int64_t row, int64_t column, bool begins,
                                                    Block& sum) {
  constexpr int kLanes = 8, kVectors = kColumns / kLanes;
  for (const PackedProduct& product : products) {
    const float* left = product.Left(row);
    const float* right = product.Right(column);
    __m256 block[kRows][kVectors];
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) block[i][j] = _mm256_setzero_ps();
    }
    for (int64_t k = 0; k < product.depth(); ++k, left += kRows, right += kColumns) {
      const __m256 vectors[kVectors] = {_mm256_loadu_ps(right), _mm256_loadu_ps(right + kLanes)};
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        const __m256 factor = _mm256_broadcast_ss(left + i);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
          block[i][j] = _mm256_fmadd_ps(factor, vectors[j], block[i][j]);
        }
      }
    }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        float* const place = &sum[i][j * kLanes];
        const __m256 added =
            begins ? block[i][j] : _mm256_add_ps(_mm256_loadu_ps(place), block[i][j]);
        _mm256_storeu_ps(place, added);
      }
    }
    begins = false;
  }
}

#else

void AddToBlock(absl::Span<const PackedProduct> products, int64_t row, int64_t column, bool begins,
                Block& sum) {
  for (const PackedProduct& product : products) {
    Block block = {};
    const float* left = product.Left(row);
    const float* right = product.Right(column);
    for (int64_t k = 0; k < product.depth(); ++k, left += kRows, right += kColumns) {
      for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) block[i][j] = std::fma(left[i], right[j], block[i][j]);
      }
    }
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kColumns; ++j) sum[i][j] = begins ? block[i][j] : sum[i][j] + block[i][j];
    }
    begins = false;
  }
}

#endif

}  // namespace

Status PackedProduct::Pack(const Product& product, OpKernelContext* ctx, PackedProduct* packed) {
  const int64_t rows = product.shape().dim_size(0), columns = product.shape().dim_size(1);
  const int64_t depth = product.a.dim_size(product.transpose_a ? 0 : 1);
  const int64_t left = Blocks(rows, kRows) * kRows * depth;
  const int64_t right = Blocks(columns, kColumns) * kColumns * depth;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({left}), &packed->left_));
  TF_RETURN_IF_ERROR(
      ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({right}), &packed->right_));
  packed->rows_ = rows;
  packed->columns_ = columns;
  packed->depth_ = depth;
  const auto pack = [depth](const Tensor& factor, int64_t size, bool is_down, int width,
                            Tensor* to) {
    PackBlocks(factor.flat<float>().data(), size, is_down ? 1 : depth, depth, is_down ? size : 1,
               width, to->flat<float>().data());
  };
  pack(product.a, rows, product.transpose_a, kRows, &packed->left_);
  pack(product.b, columns, !product.transpose_b, kColumns, &packed->right_);
  return tensorflow::OkStatus();
}

const float* PackedProduct::Left(int64_t block) const {
  return left_.flat<float>().data() + block * kRows * depth_;
}

const float* PackedProduct::Right(int64_t block) const {
  return right_.flat<float>().data() + block * kColumns * depth_;
}

void AddProducts(const Tensor* before, absl::Span<const PackedProduct> products, float divisor,
                 Tensor* output, const tensorflow::DeviceBase::CpuWorkerThreads* workers) {
  const int64_t rows = products[0].rows(), columns = products[0].columns();
  const float* const start = before == nullptr ? nullptr : before->flat<float>().data();
  float* const result = output->flat<float>().data();
  const auto make = [&](int64_t row, int64_t column) {
    const int64_t height = std::min<int64_t>(kRows, rows - row * kRows);
    const int64_t width = std::min<int64_t>(kColumns, columns - column * kColumns);
    const int64_t place = row * kRows * columns + column * kColumns;
    Block sum;
    if (start != nullptr) {
      for (int64_t i = 0; i < height; ++i) {
        std::copy_n(start + place + i * columns, width, sum[i]);
      }
    }
    AddToBlock(products, row, column, /*begins=*/start == nullptr, sum);
    for (int64_t i = 0; i < height; ++i) {
      float* const to = result + place + i * columns;
      for (int64_t j = 0; j < width; ++j) to[j] = sum[i][j] / divisor;
    }
  };
  const int64_t rows_of_blocks = Blocks(rows, kRows), blocks = Blocks(columns, kColumns);
  const auto make_rows = [&](int64_t begin, int64_t end) {
    for (int64_t first = 0; first < blocks; first += kBlocksInRow) {
      const int64_t last = std::min(first + kBlocksInRow, blocks);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t column = first; column < last; ++column) make(row, column);
      }
    }
  };
  int64_t depth = 0;
  for (const PackedProduct& product : products) depth += product.depth();
  const int64_t cost = kRowsOfBlocks * kRows * columns * depth / kMultiplicationsPerCycle;
  workers->workers->ParallelFor(
      Blocks(rows_of_blocks, kRowsOfBlocks), cost, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          make_rows(i * kRowsOfBlocks, std::min((i + 1) * kRowsOfBlocks, rows_of_blocks));
        }
      });
}

}  // namespace tensorflow_ipu
