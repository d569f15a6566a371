// Kernels of block-sparse matrices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "poplar/core/OpWork.hpp"
#include "popsparse/block_mask.h"
#include "poputil/float_kernel.h"

namespace popsparse::experimental {
namespace {

using poputil::KernelCall;

SubBlockMask MaskOf(const KernelCall& call) {
  return static_cast<SubBlockMask>(call.attributes.Int("mask"));
}

// The places of blocks by group.
std::vector<std::vector<size_t>> ByGroup(const BlockMask& mask) {
  std::vector<std::vector<size_t>> result(mask.groups);
  for (size_t b = 0; b < mask.blocks.size(); ++b) result[mask.blocks[b].group].push_back(b);
  return result;
}

// out {g, m, n} = dense {g, m, k} * sparse {k, n}, or the transpose of sparse {n, k}.
void DenseTimesBlocks(const KernelCall& call) {
  const BlockMask mask = ReadBlockMask(call.attributes);
  const bool transposed = call.attributes.Bool("transposed");
  const std::vector<std::vector<size_t>> of_group = ByGroup(mask);
  const size_t m = call.OutShape(0)[1], n = call.OutShape(0)[2], k = call.InShape(0)[2];
  const size_t height = mask.block_rows, width = mask.block_columns;
  poplar::core::parallelFor(mask.groups * m, 4, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const float* dense = call.in(0) + row * k;
      float* out = call.out(0) + row * n;
      std::fill(out, out + n, 0.0f);
      for (const size_t b : of_group[row / m]) {
        const BlockPlace& place = mask.blocks[b];
        const float* values = call.in(1) + b * mask.area();
        for (size_t i = 0; i < height; ++i) {
          const float* line = values + i * width;
          if (transposed) {
            for (size_t j = 0; j < width; ++j) {
              out[place.row + i] += dense[place.column + j] * line[j];
            }
          } else {
            const float factor = dense[place.row + i];
            for (size_t j = 0; j < width; ++j) out[place.column + j] += factor * line[j];
          }
        }
      }
    }
  });
}

// Blocks of {g, m, n} = {g, m, k} * {g, k, n}.
void BlocksOfProduct(const KernelCall& call) {
  const BlockMask mask = ReadBlockMask(call.attributes);
  const SubBlockMask zero = MaskOf(call);
  const size_t k = call.InShape(0)[2], m = mask.rows, n = mask.columns;
  poplar::core::parallelFor(mask.blocks.size(), 1, [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) {
      const BlockPlace& place = mask.blocks[b];
      for (size_t i = 0; i < mask.block_rows; ++i) {
        float* out = call.out(0) + b * mask.area() + i * mask.block_columns;
        const float* left = call.in(0) + (place.group * m + place.row + i) * k;
        std::fill(out, out + mask.block_columns, 0.0f);
        for (size_t inner = 0; inner < k; ++inner) {
          const float* right = call.in(1) + (place.group * k + inner) * n + place.column;
          for (size_t j = 0; j < mask.block_columns; ++j) out[j] += left[inner] * right[j];
        }
        for (size_t j = 0; j < mask.block_columns; ++j) {
          if (IsMasked(zero, place.row + i, place.column + j)) out[j] = 0;
        }
      }
    }
  });
}

// The blocks of each row of blocks, over all groups.
std::vector<std::vector<size_t>> ByRow(const BlockMask& mask) {
  const size_t rows = mask.rows / mask.block_rows;
  std::vector<std::vector<size_t>> result(mask.groups * rows);
  for (size_t b = 0; b < mask.blocks.size(); ++b) {
    const BlockPlace& place = mask.blocks[b];
    result[place.group * rows + place.row / mask.block_rows].push_back(b);
  }
  return result;
}

// Calls `use(element, row, column)` for what a row of the matrix has.
template <typename Use>
void ForRow(const BlockMask& mask, const std::vector<size_t>& blocks, size_t i, const Use& use) {
  for (const size_t b : blocks) {
    const BlockPlace& place = mask.blocks[b];
    for (size_t j = 0; j < mask.block_columns; ++j) {
      use(b * mask.area() + i * mask.block_columns + j, place.row + i, place.column + j);
    }
  }
}

void Softmax(const KernelCall& call) {
  const BlockMask mask = ReadBlockMask(call.attributes);
  const SubBlockMask zero = MaskOf(call);
  const float* in = call.in(0);
  float* out = call.out(0);
  for (const std::vector<size_t>& blocks : ByRow(mask)) {
    for (size_t i = 0; i < mask.block_rows; ++i) {
      float greatest = -std::numeric_limits<float>::infinity(), sum = 0;
      ForRow(mask, blocks, i, [&](size_t at, size_t row, size_t column) {
        if (!IsMasked(zero, row, column)) greatest = std::max(greatest, in[at]);
      });
      ForRow(mask, blocks, i, [&](size_t at, size_t row, size_t column) {
        out[at] = IsMasked(zero, row, column) ? 0.0f : std::exp(in[at] - greatest);
        sum += out[at];
      });
      if (sum == 0) continue;
      ForRow(mask, blocks, i, [&](size_t at, size_t, size_t) { out[at] /= sum; });
    }
  }
}

void SoftmaxGradient(const KernelCall& call) {
  const BlockMask mask = ReadBlockMask(call.attributes);
  const float *y = call.in(0), *dy = call.in(1);
  for (const std::vector<size_t>& blocks : ByRow(mask)) {
    for (size_t i = 0; i < mask.block_rows; ++i) {
      float sum = 0;
      ForRow(mask, blocks, i, [&](size_t at, size_t, size_t) { sum += y[at] * dy[at]; });
      ForRow(mask, blocks, i,
             [&](size_t at, size_t, size_t) { call.out(0)[at] = y[at] * (dy[at] - sum); });
    }
  }
}

const poputil::FloatKernelRegistration kDenseTimesBlocks("popsparse::bsMatMul", DenseTimesBlocks);
const poputil::FloatKernelRegistration kBlocksOfProduct("popsparse::bsMatMulSparseResult",
                                                        BlocksOfProduct);
// Of the blocks that are there, each times the rows of the dense operand.
const poplar::core::WorkRegistration kDenseWork(
    "popsparse::bsMatMul", [](const poplar::core::KernelSpec& spec) {
      const BlockMask mask = ReadBlockMask(poputil::Attributes(spec.parameters));
      return poplar::core::MatrixWork{1, mask.blocks.size(), spec.outputs[0].shape[1],
                                      mask.block_rows, mask.block_columns};
    });
const poplar::core::WorkRegistration kBlocksWork(
    "popsparse::bsMatMulSparseResult", [](const poplar::core::KernelSpec& spec) {
      const BlockMask mask = ReadBlockMask(poputil::Attributes(spec.parameters));
      return poplar::core::MatrixWork{1, mask.blocks.size(), mask.block_rows,
                                      spec.inputs[0].shape[2], mask.block_columns};
    });
const poputil::FloatKernelRegistration kSoftmax("popsparse::bsSoftmax", Softmax);
const poputil::FloatKernelRegistration kSoftmaxGradient("popsparse::bsSoftmaxGrad",
                                                        SoftmaxGradient);

}  // namespace
}  // namespace popsparse::experimental
