// Kernels of sparse matrices: their first inputs are values and meta information.
#include <algorithm>
#include <vector>

#include "poplar/core/LibraryOp.hpp"
#include "poplar/core/OpWork.hpp"
#include "popsparse/meta_info.h"
#include "poputil/float_kernel.h"

namespace popsparse {
namespace {

using poputil::KernelCall;

constexpr size_t kGrain = 16;  // columns or rows of a part for one core

struct Block {
  size_t rows, columns;

  explicit Block(const KernelCall& call)
      : rows(call.attributes.Sizes("block")[0]), columns(call.attributes.Sizes("block")[1]) {}
  size_t size() const { return rows * columns; }
};

std::vector<BlockIndex> Blocks(const KernelCall& call, size_t input) {
  return BlocksOf(call.InAs<uint16_t>(input), (call.InSize(input) - kHeaderWords) / kWordsOfBlock);
}

// Calls `use(row, column, place)` for all values; transposed exchanges rows and columns.
template <typename Use>
void ForValues(const std::vector<BlockIndex>& blocks, const Block& block, bool transposed,
               const Use& use) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (size_t i = 0; i < block.size(); ++i) {
      const size_t row = blocks[b].row + i / block.columns;
      const size_t column = blocks[b].column + i % block.columns;
      use(transposed ? column : row, transposed ? row : column, b * block.size() + i);
    }
  }
}

// out {g, m, n} = sparse {m, k} * dense {g, k, n}; parts are columns of the result.
void SparseDense(const KernelCall& call) {
  const auto blocks = Blocks(call, 1);
  const Block block(call);
  const bool transposed = call.attributes.Bool("transposed");
  const std::vector<size_t>& out = call.OutShape(0);
  const size_t m = out[1], n = out[2], k = call.InShape(2)[1];
  std::fill(call.out(0), call.out(0) + call.OutSize(0), 0.0f);
  for (size_t group = 0; group < out[0]; ++group) {
    const float* dense = call.in(2) + group * k * n;
    float* result = call.out(0) + group * m * n;
    poplar::core::parallelFor(n, kGrain, [&](size_t begin, size_t end) {
      ForValues(blocks, block, transposed, [&](size_t row, size_t column, size_t place) {
        const float value = call.in(0)[place];
        for (size_t j = begin; j < end; ++j) result[row * n + j] += value * dense[column * n + j];
      });
    });
  }
}

// out {g, n, m} = dense {g, n, k} * sparse {k, m}; parts are rows of the result.
void DenseSparse(const KernelCall& call) {
  const auto blocks = Blocks(call, 1);
  const Block block(call);
  const bool transposed = call.attributes.Bool("transposed");
  const std::vector<size_t>& out = call.OutShape(0);
  const size_t m = out[2], k = call.InShape(2)[2];
  std::fill(call.out(0), call.out(0) + call.OutSize(0), 0.0f);
  poplar::core::parallelFor(out[0] * out[1], 1, [&](size_t begin, size_t end) {
    for (size_t n = begin; n < end; ++n) {
      const float* dense = call.in(2) + n * k;
      float* result = call.out(0) + n * m;
      ForValues(blocks, block, transposed, [&](size_t row, size_t column, size_t place) {
        result[column] += call.in(0)[place] * dense[row];
      });
    }
  });
}

// Inputs: meta information, gradients {batch, rows}, activations {batch, columns}. The result is in
// the order of values.
void GradientOfValues(const KernelCall& call) {
  const auto blocks = Blocks(call, 0);
  const Block block(call);
  const size_t batch = call.InShape(1)[0], rows = call.InShape(1)[1], columns = call.InShape(2)[1];
  std::fill(call.out(0), call.out(0) + call.OutSize(0), 0.0f);
  for (size_t b = 0; b < batch; ++b) {
    const float *gradients = call.in(1) + b * rows, *activations = call.in(2) + b * columns;
    ForValues(blocks, block, false, [&](size_t row, size_t column, size_t place) {
      call.out(0)[place] += gradients[row] * activations[column];
    });
  }
}

// Inputs: values, meta information, indices. Rows of the matrix, with zeros.
void SliceRows(const KernelCall& call) {
  const auto blocks = Blocks(call, 1);
  const Block block(call);
  const uint32_t* indices = call.InAs<uint32_t>(2);
  const size_t count = call.OutShape(0)[0], columns = call.OutShape(0)[1];
  std::fill(call.out(0), call.out(0) + call.OutSize(0), 0.0f);
  for (size_t i = 0; i < count; ++i) {
    ForValues(blocks, block, false, [&](size_t row, size_t column, size_t place) {
      if (row == indices[i]) call.out(0)[i * columns + column] = call.in(0)[place];
    });
  }
}

// Inputs: meta information, slices, indices, scale. The output are the values.
void AddRows(const KernelCall& call) {
  const auto blocks = Blocks(call, 0);
  const Block block(call);
  const uint32_t* indices = call.InAs<uint32_t>(2);
  const size_t count = call.InShape(1)[0], columns = call.InShape(1)[1];
  for (size_t i = 0; i < count; ++i) {
    ForValues(blocks, block, false, [&](size_t row, size_t column, size_t place) {
      if (row == indices[i]) {
        call.out(0)[place] += call.in(3)[0] * call.in(1)[i * columns + column];
      }
    });
  }
}

const poputil::FloatKernelRegistration kSparseDense("popsparse::sparseDenseMatMul", SparseDense);
const poputil::FloatKernelRegistration kDenseSparse("popsparse::denseSparseMatMul", DenseSparse);
// Each value times a row or column of the dense operand, whose inner size is one.
poplar::core::MatrixWork WorkOfProduct(const poplar::core::KernelSpec& spec) {
  const std::vector<size_t>& out = spec.outputs[0].shape;
  const uint64_t dense = spec.name == "popsparse::sparseDenseMatMul" ? out[2] : out[1];
  return {1, out[0], dense, 1, KernelCall::Product(spec.inputs[0].shape)};
}

const poplar::core::WorkRegistration kSparseDenseWork("popsparse::sparseDenseMatMul",
                                                      WorkOfProduct);
const poplar::core::WorkRegistration kDenseSparseWork("popsparse::denseSparseMatMul",
                                                      WorkOfProduct);
const poputil::FloatKernelRegistration kGradient("popsparse::fullyConnectedSparseGradW",
                                                 GradientOfValues);
const poputil::FloatKernelRegistration kSlice("popsparse::embeddingSlice", SliceRows);
const poputil::FloatKernelRegistration kAdd("popsparse::embeddingUpdateAdd", AddRows);

}  // namespace
}  // namespace popsparse
