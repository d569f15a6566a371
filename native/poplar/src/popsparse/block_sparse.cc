#include <utility>

#include "popsparse/block_mask.h"
#include "popsparse/experimental/BlockSparseMatMul.hpp"

namespace popsparse::experimental {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::CallSite;
using Sizes2 = std::array<int, 2>;
using Sizes3 = std::array<int, 3>;
using Sparsity = std::vector<unsigned char>;

// What a product computes. Its mask is checked by the functions that have a call's name.
class BSMatMulImpl {
 public:
  Sizes3 dim, block;
  Sparsity present;
  Type in, out, partials;
  unsigned groups;
  bool sparse_result, transposed;
  SubBlockMask sub_blocks;

  BlockMask Mask(const CallSite& site) const {
    if (sparse_result) {
      return MakeBlockMask(site, {dim[0], dim[2]}, {block[0], block[2]}, present, groups);
    }
    if (transposed) {
      return MakeBlockMask(site, {dim[2], dim[1]}, {block[2], block[1]}, present, groups);
    }
    return MakeBlockMask(site, {dim[1], dim[2]}, {block[1], block[2]}, present, groups);
  }

  std::vector<size_t> Dense(int rows, int columns) const {
    std::vector<size_t> shape = {static_cast<size_t>(rows), static_cast<size_t>(columns)};
    if (groups > 1) shape.insert(shape.begin(), groups);
    return shape;
  }
};

BSMatMulParams::BSMatMulParams(const Sizes3& dim, const Sizes3& blockSize,
                               const Sparsity& rhsSparsity, bool rhsNeedTranspose, Type inDataType,
                               Type outDataType, Type partialDataType, unsigned numGroupsIn)
    : impl(new BSMatMulImpl{dim, blockSize, rhsSparsity, inDataType, outDataType, partialDataType,
                            numGroupsIn, false, rhsNeedTranspose, SubBlockMask::None}) {}

BSMatMulParams::BSMatMulParams(const Sizes3& dim, const Sizes3& blockSize,
                               const Sparsity& resSparsity, Type inDataType, Type outDataType,
                               Type partialDataType, SubBlockMask subBlockMask,
                               unsigned numGroupsIn)
    : impl(new BSMatMulImpl{dim, blockSize, resSparsity, inDataType, outDataType, partialDataType,
                            numGroupsIn, true, false, subBlockMask}) {}

BSMatMulParams::BSMatMulParams(BSMatMulParams&& other) = default;
BSMatMulParams::~BSMatMulParams() = default;

namespace {

void CheckProductOptions(const char* function, const OptionFlags& options) {
  poputil::CheckOptions(function, options, {{"memoryCycleRatio", {}}, {"partitionMethod", {}}});
}

// A dense operand as {groups, rows, columns}.
Tensor Grouped(const CallSite& site, const char* name, const Tensor& given,
               const BSMatMulImpl& product, int rows, int columns) {
  site.CheckType(name, given, product.in);
  const size_t g = product.groups, r = static_cast<size_t>(rows), c = static_cast<size_t>(columns);
  if (given.rank() == 3) {
    site.CheckShape(name, given, {g, r, c});
    return given;
  }
  site.CheckShape(name, given, {g * r, c});
  return given.reshape({g, r, c});
}

Tensor SoftmaxOf(const char* function, Graph& graph, const Tensor& in, const Sizes2& dim,
                 const Sizes2& block, const Sparsity& sparsity, SubBlockMask zero, unsigned groups,
                 bool in_place, Sequence& prog, const DebugContext& debug) {
  const CallSite site(function, graph, debug);
  const BlockMask mask = MakeBlockMask(site, dim, block, sparsity, groups);
  site.CheckFloating("sparseTensor", in);
  site.CheckShape("sparseTensor", in, mask.Shape());
  const Tensor out = in_place ? in : site.NewLike(in.elementType(), in);
  site.Add(prog, "popsparse::bsSoftmax", BlockAttributes(mask).Set("mask", static_cast<int>(zero)),
           {in}, {out});
  return out;
}

}  // namespace

Tensor createBSMatMulInputLHS(Graph& graph, const BSMatMulParams& bsMatMul,
                              const DebugContext& debugContext, const OptionFlags& options) {
  const char* function = "popsparse::experimental::createBSMatMulInputLHS";
  CheckProductOptions(function, options);
  const BSMatMulImpl& product = *bsMatMul.impl;
  return CallSite(function, graph, debugContext)
      .NewTensor(product.in, product.Dense(product.dim[0], product.dim[1]), "lhs");
}

Tensor createBSMatMulInputRHS(Graph& graph, const BSMatMulParams& bsMatMul,
                              const DebugContext& debugContext, const OptionFlags& options) {
  const char* function = "popsparse::experimental::createBSMatMulInputRHS";
  CheckProductOptions(function, options);
  const BSMatMulImpl& product = *bsMatMul.impl;
  const CallSite site(function, graph, debugContext);
  if (!product.sparse_result) return site.NewTensor(product.in, product.Mask(site).Shape(), "rhs");
  return site.NewTensor(product.in, product.Dense(product.dim[1], product.dim[2]), "rhs");
}

Tensor bsMatMul(Graph& graph, const BSMatMulParams& bsMatMulParams, Sequence& prog,
                const Tensor& lhsMatrix, const Tensor& rhsMatrix, const OptionFlags& options,
                const DebugContext& debugContext) {
  const char* function = "popsparse::experimental::bsMatMul";
  CheckProductOptions(function, options);
  const BSMatMulImpl& product = *bsMatMulParams.impl;
  const CallSite site(function, graph, debugContext);
  site.CheckFloating("inDataType", product.in);
  site.CheckFloating("outDataType", product.out);
  const BlockMask mask = product.Mask(site);
  const Sizes3& dim = product.dim;
  const Tensor left = Grouped(site, "lhsMatrix", lhsMatrix, product, dim[0], dim[1]);
  if (product.sparse_result) {
    const Tensor right = Grouped(site, "rhsMatrix", rhsMatrix, product, dim[1], dim[2]);
    const Tensor out = site.NewTensor(product.out, mask.Shape());
    site.Add(prog, "popsparse::bsMatMulSparseResult",
             BlockAttributes(mask).Set("mask", static_cast<int>(product.sub_blocks)), {left, right},
             {out});
    return out;
  }
  site.CheckType("rhsMatrix", rhsMatrix, product.in);
  site.CheckShape("rhsMatrix", rhsMatrix, mask.Shape());
  const size_t columns = static_cast<size_t>(dim[2]);
  const Tensor out = site.NewTensor(product.out, {left.dim(0), left.dim(1), columns});
  site.Add(prog, "popsparse::bsMatMul", BlockAttributes(mask).Set("transposed", product.transposed),
           {left, rhsMatrix}, {out});
  if (lhsMatrix.rank() == 3) return out;
  return out.reshape({left.dim(0) * left.dim(1), columns});
}

Tensor bsSoftmax(Graph& graph, Tensor sparseTensor, const Sizes2& dim, const Sizes2& blockSize,
                 const Sparsity& sparsity, SubBlockMask subBlockMaskType, unsigned numGroups,
                 Sequence& prog, const DebugContext& debugContext) {
  return SoftmaxOf("popsparse::experimental::bsSoftmax", graph, sparseTensor, dim, blockSize,
                   sparsity, subBlockMaskType, numGroups, false, prog, debugContext);
}

Tensor bsSoftmax(Graph& graph, Tensor sparseTensor, const Sizes2& dim, const Sizes2& blockSize,
                 const Sparsity& sparsity, SubBlockMask subBlockMaskType, Sequence& prog,
                 const DebugContext& debugContext) {
  return bsSoftmax(graph, sparseTensor, dim, blockSize, sparsity, subBlockMaskType, 1, prog,
                   debugContext);
}

void bsSoftmaxInPlace(Graph& graph, Tensor sparseTensor, const Sizes2& dim, const Sizes2& blockSize,
                      const Sparsity& sparsity, SubBlockMask subBlockMaskType, unsigned numGroups,
                      Sequence& prog, const DebugContext& debugContext) {
  SoftmaxOf("popsparse::experimental::bsSoftmaxInPlace", graph, sparseTensor, dim, blockSize,
            sparsity, subBlockMaskType, numGroups, true, prog, debugContext);
}

void bsSoftmaxInPlace(Graph& graph, Tensor sparseTensor, const Sizes2& dim, const Sizes2& blockSize,
                      const Sparsity& sparsity, SubBlockMask subBlockMaskType, Sequence& prog,
                      const DebugContext& debugContext) {
  bsSoftmaxInPlace(graph, sparseTensor, dim, blockSize, sparsity, subBlockMaskType, 1, prog,
                   debugContext);
}

Tensor bsSoftmaxGrad(Graph& graph, Tensor sparseOut, Tensor sparseOutGrad, const Sizes2& dim,
                     const Sizes2& blockSize, const Sparsity& sparsity, unsigned numGroups,
                     Sequence& prog, const DebugContext& debugContext) {
  const CallSite site("popsparse::experimental::bsSoftmaxGrad", graph, debugContext);
  const BlockMask mask = MakeBlockMask(site, dim, blockSize, sparsity, numGroups);
  site.CheckFloating("sparseOut", sparseOut);
  site.CheckShape("sparseOut", sparseOut, mask.Shape());
  site.CheckType("sparseOutGrad", sparseOutGrad, sparseOut.elementType());
  site.CheckShape("sparseOutGrad", sparseOutGrad, mask.Shape());
  const Tensor out = site.NewLike(sparseOut.elementType(), sparseOut);
  site.Add(prog, "popsparse::bsSoftmaxGrad", BlockAttributes(mask), {sparseOut, sparseOutGrad},
           {out});
  return out;
}

Tensor bsSoftmaxGrad(Graph& graph, Tensor sparseOut, Tensor sparseOutGrad, const Sizes2& dim,
                     const Sizes2& blockSize, const Sparsity& sparsity, Sequence& prog,
                     const DebugContext& debugContext) {
  // Sizes that are wrong are refused below.
  const bool known = dim[0] > 0 && dim[1] > 0 && blockSize[0] > 0 && blockSize[1] > 0;
  const size_t of_group = known ? static_cast<size_t>(dim[0] / blockSize[0]) *
                                      static_cast<size_t>(dim[1] / blockSize[1])
                                : 0;
  const unsigned groups = of_group ? static_cast<unsigned>(sparsity.size() / of_group) : 1;
  return bsSoftmaxGrad(graph, sparseOut, sparseOutGrad, dim, blockSize, sparsity, groups, prog,
                       debugContext);
}

}  // namespace popsparse::experimental
