#include "popsparse/MatMul.hpp"

#include <string>
#include <vector>

#include "popsparse/Embedding.hpp"
#include "popsparse/FullyConnected.hpp"
#include "popsparse/codelets.hpp"
#include "popsparse/meta_info.h"
#include "poputil/call_site.h"

namespace popsparse {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;

void addCodelets(Graph&) {}

namespace {

Attributes BlockOf(const core::MatrixSizes& sizes) {
  Attributes attributes;
  attributes.Set("block", std::vector<size_t>{sizes.block[0], sizes.block[1]});
  return attributes;
}

// A dense operand {g, rows, columns}.
Tensor Dense(const CallSite& site, const char* name, const Tensor& given, bool transposed) {
  site.CheckFloating(name, given);
  site.CheckRank(name, given, 3);
  return transposed ? given.dimShuffle({0, 2, 1}) : given;
}

void CheckInner(const CallSite& site, const char* name, const Tensor& dense, unsigned dim,
                size_t size, const core::MatrixSizes& sizes) {
  if (dense.dim(dim) == size) return;
  site.Fail(std::string(name) + " has shape " + dense.shapeToString() + " and the sparse matrix " +
            poputil::ShapeText({sizes.rows, sizes.columns}) +
            ", with transposes as given; expected " + std::to_string(size) +
            " elements in dimension " + std::to_string(dim) + ".");
}

template <typename Sparse>
Tensor SparseDense(const CallSite& site, const Sparse& lhs, const Tensor& rhs, Sequence& prog,
                   bool transpose_lhs, bool transpose_rhs) {
  const core::MatrixSizes& sizes = lhs.getSizes();
  const Tensor dense = Dense(site, "rhs", rhs, transpose_rhs);
  CheckInner(site, "rhs", dense, 1, transpose_lhs ? sizes.rows : sizes.columns, sizes);
  const size_t rows = transpose_lhs ? sizes.columns : sizes.rows;
  const Tensor out = site.NewTensor(rhs.elementType(), {dense.dim(0), rows, dense.dim(2)});
  site.Add(prog, "popsparse::sparseDenseMatMul", BlockOf(sizes).Set("transposed", transpose_lhs),
           {lhs.getNzValuesTensor(), lhs.getMetaInfoTensor(), dense}, {out});
  return out;
}

template <typename Sparse>
Tensor DenseSparse(const CallSite& site, const Tensor& lhs, const Sparse& rhs, Sequence& prog,
                   bool transpose_lhs, bool transpose_rhs) {
  const core::MatrixSizes& sizes = rhs.getSizes();
  const Tensor dense = Dense(site, "lhs", lhs, transpose_lhs);
  CheckInner(site, "lhs", dense, 2, transpose_rhs ? sizes.columns : sizes.rows, sizes);
  const size_t columns = transpose_rhs ? sizes.rows : sizes.columns;
  const Tensor out = site.NewTensor(lhs.elementType(), {dense.dim(0), dense.dim(1), columns});
  site.Add(prog, "popsparse::denseSparseMatMul", BlockOf(sizes).Set("transposed", transpose_rhs),
           {rhs.getNzValuesTensor(), rhs.getMetaInfoTensor(), dense}, {out});
  return out;
}

// Variables for up to `values` values.
dynamic::SparseTensor NewSparse(const CallSite& site, const Type& type, size_t values,
                                const core::MatrixSizes& sizes) {
  site.CheckFloating("inputType", type);
  const size_t blocks = values / (sizes.block[0] * sizes.block[1]);
  return dynamic::SparseTensor(
      site.NewTensor(poplar::UNSIGNED_SHORT, {WordsOf(blocks)}, "metaInfo"),
      site.NewTensor(type, {values}, "nzValues"), sizes);
}

// A dense product without groups: {1, rows, columns} as {rows, columns}.
Tensor Grouped(const Tensor& matrix) { return matrix.expand({0}); }

}  // namespace

namespace core {

static_::SparseTensor createStatic(const char* function, Graph& graph, const Type& type,
                                   const MatrixSizes& sizes, const Pattern& pattern,
                                   const DebugContext& debug, const OptionFlags& options) {
  checkStaticOptions(function, options);
  const CallSite site(function, graph, debug);
  site.CheckFloating("inputType", type);
  const std::vector<size_t> words = encode(pattern, pattern.rows.size());
  const Tensor meta = graph.addConstant(poplar::UNSIGNED_SHORT, {words.size()},
                                        std::vector<unsigned short>(words.begin(), words.end()),
                                        DebugContext(debug, "metaInfo"));
  graph.setTileMapping(meta, 0);
  const size_t values = pattern.rows.size() * sizes.block[0] * sizes.block[1];
  return static_::SparseTensor(meta, site.NewTensor(type, {values}, "nzValues"), sizes);
}

}  // namespace core

namespace dynamic {

SparseTensor createSparseDenseMatMulLHS(Graph& graph, const Type& inputType,
                                        const MatMulParams& params,
                                        const DebugContext& debugContext,
                                        const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::createSparseDenseMatMulLHS";
  core::checkDynamicOptions(function, options);
  return NewSparse(CallSite(function, graph, debugContext), inputType, params.getNumNonZeroValues(),
                   core::sizesOf(params));
}

Tensor createSparseDenseMatMulRHS(Graph& graph, const Type& inputType, const MatMulParams& params,
                                  const DebugContext& debugContext, const OptionFlags& options,
                                  PlanningCache*) {
  const char* function = "popsparse::dynamic::createSparseDenseMatMulRHS";
  core::checkDynamicOptions(function, options);
  return CallSite(function, graph, debugContext)
      .NewTensor(inputType, {params.getNumGroups(), params.getK(), params.getN()}, "rhs");
}

Tensor sparseDenseMatMul(Graph& graph, const SparseTensor& lhs, const Tensor& rhs, Sequence& prog,
                         bool transposeLHS, bool transposeRHS, const DebugContext& debugContext,
                         const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::sparseDenseMatMul";
  core::checkDynamicOptions(function, options);
  return SparseDense(CallSite(function, graph, debugContext), lhs, rhs, prog, transposeLHS,
                     transposeRHS);
}

Tensor denseSparseMatMul(Graph& graph, const Tensor& lhs, const SparseTensor& rhs, Sequence& prog,
                         bool transposeLHS, bool transposeRHS, const DebugContext& debugContext,
                         const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::denseSparseMatMul";
  core::checkDynamicOptions(function, options);
  return DenseSparse(CallSite(function, graph, debugContext), lhs, rhs, prog, transposeLHS,
                     transposeRHS);
}

SparseTensor createFullyConnectedWeights(Graph& graph, const Type& inputType,
                                         const FullyConnectedParams& params,
                                         const DebugContext& debugContext,
                                         const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::createFullyConnectedWeights";
  core::checkDynamicOptions(function, options);
  return NewSparse(CallSite(function, graph, debugContext), inputType, params.getNumNonZeroValues(),
                   core::sizesOf(params));
}

Tensor createFullyConnectedInput(Graph& graph, const Type& inputType,
                                 const FullyConnectedParams& params,
                                 const DebugContext& debugContext, const OptionFlags& options,
                                 PlanningCache*) {
  const char* function = "popsparse::dynamic::createFullyConnectedInput";
  core::checkDynamicOptions(function, options);
  return CallSite(function, graph, debugContext)
      .NewTensor(inputType, {params.getBatchSize(), params.getInputChannels()}, "input");
}

Tensor fullyConnectedFwd(Graph& graph, const SparseTensor& weights, const Tensor& activations,
                         const FullyConnectedParams& fcParams, Sequence& prog,
                         const DebugContext& debugContext, const OptionFlags& options,
                         PlanningCache*) {
  const char* function = "popsparse::dynamic::fullyConnectedFwd";
  core::checkDynamicOptions(function, options);
  const CallSite site(function, graph, debugContext);
  site.CheckShape("activations", activations,
                  {fcParams.getBatchSize(), fcParams.getInputChannels()});
  return DenseSparse(site, Grouped(activations), weights, prog, false, true)[0];
}

Tensor fullyConnectedGradA(Graph& graph, const SparseTensor& weights, const Tensor& gradients,
                           const FullyConnectedParams& fcParams, Sequence& prog,
                           const DebugContext& debugContext, const OptionFlags& options,
                           PlanningCache*) {
  const char* function = "popsparse::dynamic::fullyConnectedGradA";
  core::checkDynamicOptions(function, options);
  const CallSite site(function, graph, debugContext);
  site.CheckShape("gradients", gradients, {fcParams.getBatchSize(), fcParams.getOutputChannels()});
  return DenseSparse(site, Grouped(gradients), weights, prog, false, false)[0];
}

Tensor fullyConnectedSparseGradW(Graph& graph, const Tensor sparsityMetaInfo, const Tensor& gradA,
                                 const Tensor& activations, const FullyConnectedParams& fcParams,
                                 Sequence& prog, const DebugContext& debugContext,
                                 const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::fullyConnectedSparseGradW";
  core::checkDynamicOptions(function, options);
  const CallSite site(function, graph, debugContext);
  site.CheckShape("gradA", gradA, {fcParams.getBatchSize(), fcParams.getOutputChannels()});
  site.CheckShape("activations", activations,
                  {fcParams.getBatchSize(), fcParams.getInputChannels()});
  const Tensor out =
      site.NewTensor(gradA.elementType(), {fcParams.getNumNonZeroValues()}, "gradient");
  site.Add(prog, "popsparse::fullyConnectedSparseGradW", BlockOf(core::sizesOf(fcParams)),
           {sparsityMetaInfo, gradA, activations}, {out});
  return out;
}

std::tuple<unsigned, unsigned, unsigned> fullyConnectedDenseGradWSerialSplits(
    const Graph&, const Type&, const FullyConnectedParams&, const OptionFlags& options,
    PlanningCache*) {
  core::checkDynamicOptions("popsparse::dynamic::fullyConnectedDenseGradWSerialSplits", options);
  return std::make_tuple(1u, 1u, 1u);
}

Tensor createIndicesTensor(Graph& graph, const FullyConnectedParams&, size_t numIndices,
                           const OptionFlags& options, const DebugContext& debugContext) {
  const char* function = "popsparse::dynamic::createIndicesTensor";
  core::checkDynamicOptions(function, options);
  return CallSite(function, graph, debugContext)
      .NewTensor(poplar::UNSIGNED_INT, {numIndices}, "indices");
}

Tensor createSliceTensor(Graph& graph, const Type& dataType, const FullyConnectedParams& params,
                         size_t numIndices, const DebugContext& debugContext,
                         const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::createSliceTensor";
  core::checkDynamicOptions(function, options);
  return CallSite(function, graph, debugContext)
      .NewTensor(dataType, {numIndices, params.getInputChannels()}, "slices");
}

Tensor embeddingSlice(Graph& graph, const SparseTensor& t, const Tensor& indices, Sequence& prog,
                      const FullyConnectedParams& params, const DebugContext& debugContext,
                      const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::embeddingSlice";
  core::checkDynamicOptions(function, options);
  const CallSite site(function, graph, debugContext);
  site.CheckType("indices", indices, poplar::UNSIGNED_INT);
  site.CheckRank("indices", indices, 1);
  const Tensor out = site.NewTensor(t.getNzValuesTensor().elementType(),
                                    {indices.dim(0), params.getInputChannels()}, "slices");
  site.Add(prog, "popsparse::embeddingSlice", BlockOf(t.getSizes()),
           {t.getNzValuesTensor(), t.getMetaInfoTensor(), indices}, {out});
  return out;
}

void embeddingUpdateAdd(Graph& graph, const SparseTensor& t, const Tensor& slices,
                        const Tensor& indices, const Tensor& scale, Sequence& prog,
                        const FullyConnectedParams& params, const DebugContext& debugContext,
                        const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::dynamic::embeddingUpdateAdd";
  core::checkDynamicOptions(function, options);
  const CallSite site(function, graph, debugContext);
  site.CheckType("indices", indices, poplar::UNSIGNED_INT);
  site.CheckRank("indices", indices, 1);
  site.CheckShape("slices", slices, {indices.dim(0), params.getInputChannels()});
  site.Add(prog, "popsparse::embeddingUpdateAdd", BlockOf(t.getSizes()),
           {t.getMetaInfoTensor(), slices, indices, scale.flatten()}, {t.getNzValuesTensor()});
}

}  // namespace dynamic

namespace static_ {

Tensor createSparseDenseMatMulRHS(Graph& graph, const Type& inputType, const MatMulParams& params,
                                  const DebugContext& debugContext, const OptionFlags& options) {
  const char* function = "popsparse::static_::createSparseDenseMatMulRHS";
  core::checkStaticOptions(function, options);
  return CallSite(function, graph, debugContext)
      .NewTensor(inputType, {params.getNumGroups(), params.getK(), params.getN()}, "rhs");
}

Tensor createDenseSparseMatMulLHS(Graph& graph, const Type& inputType, const MatMulParams& params,
                                  const DebugContext& debugContext, const OptionFlags& options) {
  const char* function = "popsparse::static_::createDenseSparseMatMulLHS";
  core::checkStaticOptions(function, options);
  return CallSite(function, graph, debugContext)
      .NewTensor(inputType, {params.getNumGroups(), params.getN(), params.getK()}, "lhs");
}

Tensor sparseDenseMatMul(Graph& graph, const SparseTensor& lhs, const Tensor& rhs, Sequence& prog,
                         bool transposeLHS, bool transposeRHS, const DebugContext& debugContext,
                         const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::static_::sparseDenseMatMul";
  core::checkStaticOptions(function, options);
  return SparseDense(CallSite(function, graph, debugContext), lhs, rhs, prog, transposeLHS,
                     transposeRHS);
}

Tensor denseSparseMatMul(Graph& graph, const Tensor& lhs, const SparseTensor& rhs, Sequence& prog,
                         bool transposeLHS, bool transposeRHS, const DebugContext& debugContext,
                         const OptionFlags& options, PlanningCache*) {
  const char* function = "popsparse::static_::denseSparseMatMul";
  core::checkStaticOptions(function, options);
  return DenseSparse(CallSite(function, graph, debugContext), lhs, rhs, prog, transposeLHS,
                     transposeRHS);
}

}  // namespace static_
}  // namespace popsparse
