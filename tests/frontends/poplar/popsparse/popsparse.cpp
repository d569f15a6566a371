// Cases of popsparse; see test_sparse.py.
#include "../cases.h"

#include <popsparse/Embedding.hpp>
#include <popsparse/FullyConnected.hpp>
#include <popsparse/MatMul.hpp>
#include <popsparse/SparsePartitioner.hpp>
#include <popsparse/SparseStorageFormats.hpp>
#include <popsparse/codelets.hpp>
#include <popsparse/experimental/BlockSparse.hpp>
#include <popsparse/experimental/BlockSparseMatMul.hpp>

using namespace poplar;
using namespace poplar::program;

namespace {

std::array<size_t, 2> block(const Case &c) {
  const std::vector<size_t> sizes = c.list("block");
  return {{sizes[0], sizes[1]}};
}

popsparse::CSRMatrix<float> csr(const Case &c) {
  return popsparse::CSRMatrix<float>(c.list<float>("values"), c.list("columns"), c.list("offsets"),
                                     block(c));
}

std::vector<unsigned short> words(const std::vector<size_t> &numbers) {
  return std::vector<unsigned short>(numbers.begin(), numbers.end());
}

template <typename Data>
void write(Case &c, const popsparse::dynamic::SparseTensor &tensor, const Data &data) {
  c.graph.setInitialValue(tensor.getMetaInfoTensor(), words(data.metaInfo));
  c.graph.setInitialValue(tensor.getNzValuesTensor(), data.nzValues);
  c.note("capacity", static_cast<double>(tensor.getNzValuesTensor().numElements()));
}

popsparse::dynamic::SparsityParams sparsity(const Case &c) {
  using namespace popsparse::dynamic;
  return SparsityParams(c.word("block") == "1 1" ? SparsityType::Element : SparsityType::Block,
                        SparsityStructure::Unstructured, block(c));
}

void dynamicMatMul(Case &c) {
  using namespace popsparse::dynamic;
  popsparse::addCodelets(c.graph);
  const std::vector<size_t> s = c.list("sizes");
  const MatMulParams params =
      c.has("ratio")
          ? MatMulParams::createWithNzRatio(sparsity(c), c.number("ratio"), 1, s[0], s[1], s[2])
          : MatMulParams::createWithNumNonZeroValues(sparsity(c), c.list<float>("values").size(), 1,
                                                     s[0], s[1], s[2]);
  PlanningCache cache;
  const Type type = c.type("type");
  const SparseTensor lhs = createSparseDenseMatMulLHS(c.graph, type, params, "lhs", {}, &cache);
  const Tensor rhs = createSparseDenseMatMulRHS(c.graph, type, params, "rhs", {}, &cache);
  c.set("dense", rhs);
  Partitioner<float> partitioner(params, type, c.graph.getTarget(), {}, &cache);
  write(c, lhs, partitioner.createSparsityDataImpl(csr(c)));
  c.out("out", sparseDenseMatMul(c.graph, lhs, rhs, c.prog, false, false, "product", {}, &cache));
  const Tensor other = c.in("other");  // {1, n, m}
  c.out("transposed", sparseDenseMatMul(c.graph, lhs, other, c.prog, true, true));
  c.out("right", denseSparseMatMul(c.graph, other, lhs, c.prog));
}

template <typename T>
void staticMatMul(Case &c) {
  using namespace popsparse::static_;
  const std::vector<size_t> s = c.list("sizes");
  const MatMulParams left = MatMulParams::createForSparseDense(1, s[0], s[1], s[2]);
  const MatMulParams right = MatMulParams::createForDenseSparse(1, s[2], s[0], s[1]);
  PlanningCache cache;
  const popsparse::CSRMatrix<float> numbers = csr(c);
  const popsparse::CSRMatrix<T> matrix(
      std::vector<T>(numbers.nzValues.begin(), numbers.nzValues.end()), numbers.columnIndices,
      numbers.rowIndices, block(c));
  const Type type = c.type("type");
  const SparseTensor lhs =
      createSparseDenseMatMulLHS<T>(c.graph, type, left, matrix, "lhs", {}, &cache);
  const SparseTensor rhs =
      createDenseSparseMatMulRHS<T>(c.graph, type, right, matrix, "rhs", {}, &cache);
  const Tensor dense = createSparseDenseMatMulRHS<T>(c.graph, type, left, matrix);
  const Tensor other = createDenseSparseMatMulLHS<T>(c.graph, type, right, matrix);
  c.set("dense", dense);
  c.set("other", other);
  Partitioner<T> partitioner(left, type, c.graph.getTarget(), {}, &cache, "partitioner");
  const std::vector<T> values = partitioner.createSparsityDataImpl(matrix).nzValues;
  std::vector<float> floats(values.begin(), values.end());
  c.graph.setInitialValue(lhs.getNzValuesTensor(), floats);
  c.graph.setInitialValue(rhs.getNzValuesTensor(), floats);
  c.out("out", sparseDenseMatMul(c.graph, lhs, dense, c.prog, false, false, "product"));
  c.out("transposed", sparseDenseMatMul(c.graph, lhs, other, c.prog, true, true));
  c.out("right", denseSparseMatMul(c.graph, other, rhs, c.prog, false, false, {}, {}, &cache));
}

// A matrix in all formats, through the data of the device.
void formats(Case &c) {
  using namespace popsparse::dynamic;
  const std::vector<size_t> s = c.list("sizes");
  const MatMulParams params = MatMulParams::createWithNumNonZeroValues(
      sparsity(c), c.list<float>("values").size() + 4 * sparsity(c).blockSize(), 1, s[0], s[1],
      s[2]);
  Partitioner<float> partitioner(params, FLOAT, c.graph.getTarget(), {});
  const SparsityDataImpl<float> data = partitioner.createSparsityDataImpl(csr(c));
  const popsparse::COOMatrix<float> coo = partitioner.sparsityDataImplToCOOMatrix(data);
  const popsparse::CSCMatrix<float> csc = partitioner.sparsityDataImplToCSCMatrix(data);
  const popsparse::CSRMatrix<float> again = partitioner.sparsityDataImplToCSRMatrix(data);
  const popsparse::CSRMatrix<float> given = csr(c);
  c.note("csr", again.nzValues == given.nzValues && again.columnIndices == given.columnIndices &&
                    again.rowIndices == given.rowIndices && again.numRows == s[0]);
  c.note("coo", partitioner.createSparsityDataImpl(coo).metaInfo == data.metaInfo &&
                    partitioner.createSparsityDataImpl(coo).nzValues == data.nzValues);
  c.note("csc", partitioner.createSparsityDataImpl(csc).metaInfo == data.metaInfo &&
                    partitioner.createSparsityDataImpl(csc).nzValues == data.nzValues);
  const SparseTensor tensor = createSparseDenseMatMulLHS(c.graph, FLOAT, params);
  c.note("lengths", tensor.getMetaInfoTensor().numElements() == data.metaInfo.size() &&
                        tensor.getNzValuesTensor().numElements() == data.nzValues.size());
}

void layer(Case &c) {
  using namespace popsparse::dynamic;
  const std::vector<size_t> s = c.list("sizes");  // outputs, inputs, batch
  const FullyConnectedParams params =
      FullyConnectedParams::createWithNzRatio(sparsity(c), c.number("ratio"), s[2], 1, s[1], s[0]);
  const SparseTensor weights = createFullyConnectedWeights(c.graph, FLOAT, params, "weights");
  const Tensor x = createFullyConnectedInput(c.graph, FLOAT, params), dy = c.in("dy");
  c.set("x", x);
  Partitioner<float> partitioner(params, FLOAT, c.graph.getTarget(), {});
  write(c, weights, partitioner.createSparsityDataImpl(csr(c)));
  c.out("y", fullyConnectedFwd(c.graph, weights, x, params, c.prog));
  c.out("dx", fullyConnectedGradA(c.graph, weights, dy, params, c.prog));
  c.out("dw",
        fullyConnectedSparseGradW(c.graph, weights.getMetaInfoTensor(), dy, x, params, c.prog));
  const std::tuple<unsigned, unsigned, unsigned> splits =
      fullyConnectedDenseGradWSerialSplits(c.graph, FLOAT, params);
  c.note("splits", std::get<0>(splits));
  const Tensor indices = createIndicesTensor(c.graph, params, 3);
  const Tensor slices = createSliceTensor(c.graph, FLOAT, params, 3);
  c.set("indices", indices);
  c.set("slices", slices);
  const Tensor scale = c.in("scale");
  c.out("rows", embeddingSlice(c.graph, weights, indices, c.prog, params));
  const Tensor before = c.graph.clone(weights.getNzValuesTensor());
  c.prog.add(Copy(weights.getNzValuesTensor(), before));
  embeddingUpdateAdd(c.graph, weights, slices, indices, scale, c.prog, params);
  c.out("before", before);
  c.out("after", weights.getNzValuesTensor());
}

popsparse::experimental::SubBlockMask zeroed(const Case &c) {
  using popsparse::experimental::SubBlockMask;
  const std::map<std::string, SubBlockMask> masks = {{"none", SubBlockMask::None},
                                                     {"upper", SubBlockMask::ZeroUpperTriangle},
                                                     {"lower", SubBlockMask::ZeroLowerTriangle}};
  return masks.at(c.word("zeroed"));
}

std::array<int, 3> three(const Case &c, const std::string &name) {
  const std::vector<int> sizes = c.list<int>(name);
  return {{sizes[0], sizes[1], sizes[2]}};
}

std::vector<unsigned char> present(const Case &c) {
  const std::vector<int> blocks = c.list<int>("present");
  return std::vector<unsigned char>(blocks.begin(), blocks.end());
}

void denseTimesBlocks(Case &c) {
  using namespace popsparse::experimental;
  const Type type = c.type("type");
  const BSMatMulParams params(three(c, "sizes"), three(c, "block"), present(c),
                              c.flag("transposed"), type, type, FLOAT,
                              static_cast<unsigned>(c.number("groups")));
  const Tensor lhs = createBSMatMulInputLHS(c.graph, params, "lhs");
  const Tensor rhs = createBSMatMulInputRHS(c.graph, params, "rhs");
  c.set("lhs", lhs);
  c.set("rhs", rhs);
  c.out("out", bsMatMul(c.graph, params, c.prog, lhs, rhs, {{"memoryCycleRatio", "0.5"}}));
  const Tensor rows =
      lhs.reshape({lhs.numElements() / lhs.dim(lhs.rank() - 1), lhs.dim(lhs.rank() - 1)});
  c.out("rows", bsMatMul(c.graph, params, c.prog, rows, rhs));
}

void blocksOfProduct(Case &c) {
  using namespace popsparse::experimental;
  const std::array<int, 3> sizes = three(c, "sizes"), block = three(c, "block");
  const unsigned groups = static_cast<unsigned>(c.number("groups"));
  const BSMatMulParams params(sizes, block, present(c), FLOAT, FLOAT, FLOAT, zeroed(c), groups);
  const Tensor lhs = createBSMatMulInputLHS(c.graph, params, "lhs");
  const Tensor rhs = createBSMatMulInputRHS(c.graph, params, "rhs");
  c.set("lhs", lhs);
  c.set("rhs", rhs);
  const Tensor product = bsMatMul(c.graph, params, c.prog, lhs, rhs);
  c.out("product", product);
  const std::array<int, 2> dim = {{sizes[0], sizes[2]}}, area = {{block[0], block[2]}};
  const Tensor softmax =
      bsSoftmax(c.graph, product, dim, area, present(c), zeroed(c), groups, c.prog);
  c.out("softmax", softmax);
  c.out("gradient", bsSoftmaxGrad(c.graph, softmax, c.in("dy"), dim, area, present(c), c.prog));
  const Tensor same = c.graph.clone(product);
  c.prog.add(Copy(product, same));
  bsSoftmaxInPlace(c.graph, same, dim, area, present(c), zeroed(c), groups, c.prog);
  c.out("in_place", same);
}

const Cases cases = {
    {"denseTimesBlocks", denseTimesBlocks},
    {"blocksOfProduct", blocksOfProduct},
    {"dynamicMatMul", dynamicMatMul},
    {"staticMatMul", staticMatMul<float>},
    {"staticHalfMatMul", staticMatMul<IeeeHalf>},
    {"formats", formats},
    {"layer", layer},
};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
