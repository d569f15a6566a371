// Products with a sparse matrix.
#ifndef popsparse_MatMul_hpp
#define popsparse_MatMul_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popsparse/MatMulParams.hpp>
#include <popsparse/PlanningCache.hpp>
#include <popsparse/SparsePartitioner.hpp>
#include <popsparse/SparseStorageFormats.hpp>
#include <popsparse/SparseTensor.hpp>

namespace popsparse {

namespace dynamic {

/// Variables of a product: the sparse {m, k} and the dense {g, k, n}.
SparseTensor createSparseDenseMatMulLHS(poplar::Graph &graph, const poplar::Type &inputType,
                                        const MatMulParams &params,
                                        const poplar::DebugContext &debugContext = {},
                                        const poplar::OptionFlags &options = {},
                                        PlanningCache *cache = nullptr);
poplar::Tensor createSparseDenseMatMulRHS(poplar::Graph &graph, const poplar::Type &inputType,
                                          const MatMulParams &params,
                                          const poplar::DebugContext &debugContext = {},
                                          const poplar::OptionFlags &options = {},
                                          PlanningCache *cache = nullptr);

/// The product {g, m, n} of a sparse and a dense matrix {g, k, n}.
poplar::Tensor sparseDenseMatMul(poplar::Graph &graph, const SparseTensor &lhs,
                                 const poplar::Tensor &rhs, poplar::program::Sequence &prog,
                                 bool transposeLHS = false, bool transposeRHS = false,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {},
                                 PlanningCache *cache = nullptr);
/// The product {g, n, k} of a dense {g, n, m} and the sparse {m, k}.
poplar::Tensor denseSparseMatMul(poplar::Graph &graph, const poplar::Tensor &lhs,
                                 const SparseTensor &rhs, poplar::program::Sequence &prog,
                                 bool transposeLHS = false, bool transposeRHS = false,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {},
                                 PlanningCache *cache = nullptr);

}  // namespace dynamic

namespace core {
static_::SparseTensor createStatic(const char *function, poplar::Graph &graph,
                                   const poplar::Type &type, const MatrixSizes &sizes,
                                   const Pattern &pattern, const poplar::DebugContext &debug,
                                   const poplar::OptionFlags &options);

template <typename T>
static_::SparseTensor createStatic(const char *function, poplar::Graph &graph,
                                   const poplar::Type &type, const static_::MatMulParams &params,
                                   const CSRMatrix<T> &matrix, const poplar::DebugContext &debug,
                                   const poplar::OptionFlags &options) {
  MatrixSizes sizes = sizesOf(params);
  sizes.block = matrix.getBlockDimensions();
  return createStatic(
      function, graph, type, sizes,
      patternOfCsr(matrix.rowIndices, matrix.columnIndices, matrix.nzValues.size(), sizes), debug,
      options);
}
}  // namespace core

namespace static_ {

/// The sparse side of a product, with the pattern of a matrix, and the dense one.
template <typename T>
SparseTensor createSparseDenseMatMulLHS(poplar::Graph &graph, const poplar::Type &inputType,
                                        const MatMulParams &params, const CSRMatrix<T> &matrix,
                                        const poplar::DebugContext &debugContext = {},
                                        const poplar::OptionFlags &options = {},
                                        PlanningCache * = nullptr) {
  return core::createStatic("popsparse::static_::createSparseDenseMatMulLHS", graph, inputType,
                            params, matrix, debugContext, options);
}
template <typename T>
SparseTensor createDenseSparseMatMulRHS(poplar::Graph &graph, const poplar::Type &inputType,
                                        const MatMulParams &params, const CSRMatrix<T> &matrix,
                                        const poplar::DebugContext &debugContext = {},
                                        const poplar::OptionFlags &options = {},
                                        PlanningCache * = nullptr) {
  return core::createStatic("popsparse::static_::createDenseSparseMatMulRHS", graph, inputType,
                            params, matrix, debugContext, options);
}

poplar::Tensor createSparseDenseMatMulRHS(poplar::Graph &graph, const poplar::Type &inputType,
                                          const MatMulParams &params,
                                          const poplar::DebugContext &debugContext = {},
                                          const poplar::OptionFlags &options = {});
poplar::Tensor createDenseSparseMatMulLHS(poplar::Graph &graph, const poplar::Type &inputType,
                                          const MatMulParams &params,
                                          const poplar::DebugContext &debugContext = {},
                                          const poplar::OptionFlags &options = {});
template <typename T>
poplar::Tensor createSparseDenseMatMulRHS(poplar::Graph &graph, const poplar::Type &inputType,
                                          const MatMulParams &params, const CSRMatrix<T> &,
                                          const poplar::DebugContext &debugContext = {},
                                          const poplar::OptionFlags &options = {},
                                          PlanningCache * = nullptr) {
  return createSparseDenseMatMulRHS(graph, inputType, params, debugContext, options);
}
template <typename T>
poplar::Tensor createDenseSparseMatMulLHS(poplar::Graph &graph, const poplar::Type &inputType,
                                          const MatMulParams &params, const CSRMatrix<T> &,
                                          const poplar::DebugContext &debugContext = {},
                                          const poplar::OptionFlags &options = {},
                                          PlanningCache * = nullptr) {
  return createDenseSparseMatMulLHS(graph, inputType, params, debugContext, options);
}

/// The product {g, m, n} of the sparse {m, k} and a dense {g, k, n}.
poplar::Tensor sparseDenseMatMul(poplar::Graph &graph, const SparseTensor &lhs,
                                 const poplar::Tensor &rhs, poplar::program::Sequence &prog,
                                 bool transposeLHS = false, bool transposeRHS = false,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {},
                                 PlanningCache *cache = nullptr);
/// The product {g, n, m} of a dense {g, n, k} and the sparse {k, m}.
poplar::Tensor denseSparseMatMul(poplar::Graph &graph, const poplar::Tensor &lhs,
                                 const SparseTensor &rhs, poplar::program::Sequence &prog,
                                 bool transposeLHS = false, bool transposeRHS = false,
                                 const poplar::DebugContext &debugContext = {},
                                 const poplar::OptionFlags &options = {},
                                 PlanningCache *cache = nullptr);

}  // namespace static_
}  // namespace popsparse

#endif  // popsparse_MatMul_hpp
