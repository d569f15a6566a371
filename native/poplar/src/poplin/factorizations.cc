// Triangular systems, factors of matrices, and grids.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "poplin/Cholesky.hpp"
#include "poplin/FullyConnected.hpp"
#include "poplin/MeshGrid.hpp"
#include "poplin/TriangularSolve.hpp"
#include "poplin/experimental/LuFactorization.hpp"
#include "poplin/experimental/QRFactorization.hpp"
#include "poplin/options.h"
#include "poputil/call_site.h"
#include "poputil/float_kernel.h"

namespace poplin {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Attributes;
using poputil::CallSite;
using poputil::KernelCall;
using Shape = std::vector<size_t>;

namespace {

// ---- kernels of matrices {batch, rows, columns}

// Calls `work(index)` for all matrices of an input.
template <typename Work>
void ForMatrices(size_t count, const Work& work) {
  poplar::core::parallelFor(count, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) work(i);
  });
}

// a {n, n} of which one half counts.
struct Triangle {
  const float* a;
  size_t n;
  bool lower, unit;

  float At(size_t row, size_t column) const {
    if (row == column && unit) return 1;
    return (row > column) == lower || row == column ? a[row * n + column] : 0.0f;
  }
};

void MaskKernel(const KernelCall& call) {
  const size_t n = call.InShape(0)[1];
  ForMatrices(call.InShape(0)[0], [&](size_t i) {
    const Triangle triangle{call.in(0) + i * n * n, n, call.attributes.Bool("lower"),
                            call.attributes.Bool("unit")};
    float* out = call.out(0) + i * n * n;
    for (size_t e = 0; e < n * n; ++e) out[e] = triangle.At(e / n, e % n);
  });
}

// X {n, m} of triangle * X = b, a row at a time from the side of the single element.
void SolveMatrix(const Triangle& triangle, const float* b, size_t m, float* x) {
  const size_t n = triangle.n;
  std::vector<double> row(m);
  for (size_t step = 0; step < n; ++step) {
    const size_t i = triangle.lower ? step : n - 1 - step;
    for (size_t j = 0; j < m; ++j) row[j] = b[i * m + j];
    const size_t begin = triangle.lower ? 0 : i + 1, end = triangle.lower ? i : n;
    for (size_t k = begin; k < end; ++k) {
      const double factor = triangle.At(i, k);
      for (size_t j = 0; j < m; ++j) row[j] -= factor * x[k * m + j];
    }
    const double diagonal = triangle.At(i, i);
    for (size_t j = 0; j < m; ++j) x[i * m + j] = static_cast<float>(row[j] / diagonal);
  }
}

void SolveKernel(const KernelCall& call) {
  const size_t n = call.InShape(0)[1], m = call.InShape(1)[2];
  ForMatrices(call.InShape(0)[0], [&](size_t i) {
    const Triangle triangle{call.in(0) + i * n * n, n, call.attributes.Bool("lower"),
                            call.attributes.Bool("unit")};
    SolveMatrix(triangle, call.in(1) + i * n * m, m, call.out(0) + i * n * m);
  });
}

// The lower factor of a lower half: an upper one is the transpose of its own lower half's.
void CholeskyMatrix(const Triangle& triangle, float* out) {
  const size_t n = triangle.n;
  const auto place = [&](size_t row, size_t column) {
    return triangle.lower ? row * n + column : column * n + row;
  };
  std::vector<float> factor(n * n, 0.0f);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = triangle.a[place(i, j)];
      for (size_t k = 0; k < j; ++k) {
        sum -= static_cast<double>(factor[place(i, k)]) * factor[place(j, k)];
      }
      factor[place(i, j)] = static_cast<float>(i == j ? std::sqrt(sum) : sum / factor[place(j, j)]);
    }
  }
  std::memcpy(out, factor.data(), factor.size() * sizeof(float));
}

void CholeskyKernel(const KernelCall& call) {
  const size_t n = call.InShape(0)[1];
  ForMatrices(call.InShape(0)[0], [&](size_t i) {
    CholeskyMatrix({call.in(0) + i * n * n, n, call.attributes.Bool("lower"), false},
                   call.out(0) + i * n * n);
  });
}

// Outputs: L {m, m} and U {m, n}.
void LuKernel(const KernelCall& call) {
  const size_t m = call.InShape(0)[0], n = call.InShape(0)[1];
  float *l = call.out(0), *u = call.out(1);
  std::memcpy(u, call.in(0), m * n * sizeof(float));
  for (size_t e = 0; e < m * m; ++e) l[e] = e / m == e % m ? 1.0f : 0.0f;
  for (size_t k = 0; k < std::min(m, n); ++k) {
    for (size_t i = k + 1; i < m; ++i) {
      const float factor = u[i * n + k] / u[k * n + k];
      l[i * m + k] = factor;
      for (size_t j = k + 1; j < n; ++j) u[i * n + j] -= factor * u[k * n + j];
      u[i * n + k] = 0;
    }
  }
}

// Reflects the rows of a matrix from row `begin` on: x -= 2 v (v' x).
void Reflect(const std::vector<double>& v, size_t begin, double* x, size_t rows, size_t columns) {
  std::vector<double> sums(columns, 0.0);
  for (size_t i = begin; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) sums[j] += v[i] * x[i * columns + j];
  }
  for (size_t i = begin; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) x[i * columns + j] -= 2 * v[i] * sums[j];
  }
}

// Outputs: A {m, n}, which becomes R, and Q {m, m}. By Householder's reflections.
void QrKernel(const KernelCall& call) {
  const size_t m = call.OutShape(0)[0], n = call.OutShape(0)[1];
  std::vector<double> r(call.out(0), call.out(0) + m * n), transposed(m * m, 0.0);
  for (size_t i = 0; i < m; ++i) transposed[i * m + i] = 1;
  for (size_t k = 0; k < std::min(n, m - 1); ++k) {
    std::vector<double> v(m, 0.0);
    double length = 0;
    for (size_t i = k; i < m; ++i) {
      v[i] = r[i * n + k];
      length += v[i] * v[i];
    }
    v[k] += std::copysign(std::sqrt(length), v[k]);
    double square = 0;
    for (size_t i = k; i < m; ++i) square += v[i] * v[i];
    if (square == 0) continue;
    for (size_t i = k; i < m; ++i) v[i] /= std::sqrt(square);
    Reflect(v, k, r.data(), m, n);
    Reflect(v, k, transposed.data(), m, m);
  }
  for (size_t e = 0; e < m * n; ++e) {
    call.out(0)[e] = e / n > e % n ? 0.0f : static_cast<float>(r[e]);
  }
  for (size_t e = 0; e < m * m; ++e) {
    call.out(1)[e] = static_cast<float>(transposed[e % m * m + e / m]);
  }
}

const poputil::FloatKernelRegistration kMask("poplin::triangularMask", MaskKernel);
const poputil::FloatKernelRegistration kSolve("poplin::triangularSolve", SolveKernel);
const poputil::FloatKernelRegistration kCholesky("poplin::cholesky", CholeskyKernel);
const poputil::FloatKernelRegistration kLu("poplin::LUFactorization", LuKernel);
const poputil::FloatKernelRegistration kQr("poplin::QRFactorization", QrKernel);

// ---- shapes

void CheckSquare(const CallSite& site, const char* name, const Shape& shape) {
  if (shape.size() >= 2 && shape[shape.size() - 1] == shape[shape.size() - 2]) return;
  site.Fail(std::string(name) + " has shape " + poputil::ShapeText(shape) +
            "; expected {..., n, n}.");
}

void CheckSystem(const CallSite& site, const Shape& a, const Shape& b, bool left) {
  CheckSquare(site, "a", a);
  const size_t rank = a.size();
  if (b.size() == rank && b[left ? rank - 2 : rank - 1] == a.back() &&
      Shape(a.begin(), a.end() - 2) == Shape(b.begin(), b.end() - 2)) {
    return;
  }
  site.Fail("a has shape " + poputil::ShapeText(a) + " and b " + poputil::ShapeText(b) +
            "; expected b {..., " + (left ? "n, m}" : "m, n}") + " with the n of a {..., n, n}.");
}

// Matrices as {batch, rows, columns}.
Tensor Batched(const Tensor& t) {
  const unsigned rank = t.rank();
  return rank == 2 ? t.expand({0}) : t.flatten(0, rank - 2);
}

Tensor Transposed(const Tensor& t) {
  return t.dimShufflePartial({t.rank() - 1, t.rank() - 2}, {t.rank() - 2, t.rank() - 1});
}

Attributes TriangleAttributes(bool lower, bool unit) {
  return Attributes().Set("lower", lower).Set("unit", unit);
}

OptionFlags WithoutBlockSize(const OptionFlags& options) {
  OptionFlags rest;
  for (const auto& option : options) {
    if (option.first != "blockSize") rest.set(option.first, option.second);
  }
  return rest;
}

void CheckOptionsOf(const char* function, const OptionFlags& options) {
  CheckMatMulOptions(function, WithoutBlockSize(options));
}

Tensor Create(const char* function, Graph& graph, const Type& type, const Shape& a, const Shape& b,
              bool left, bool first, const DebugContext& debug, const OptionFlags& options) {
  CheckOptionsOf(function, options);
  const CallSite site(function, graph, debug);
  CheckSystem(site, a, b, left);
  site.CheckFloating("inputType", type);
  return site.NewTensor(type, first ? a : b, first ? "a" : "b");
}

}  // namespace

Tensor createTriangularSolveInputLHS(Graph& graph, const Type& inputType, const Type&,
                                     const Shape& aShape, const Shape& bShape, bool leftSide,
                                     const DebugContext& debugContext, const OptionFlags& options,
                                     PlanningCache*) {
  return Create("poplin::createTriangularSolveInputLHS", graph, inputType, aShape, bShape, leftSide,
                true, debugContext, options);
}

Tensor createTriangularSolveInputRHS(Graph& graph, const Type& inputType, const Type&,
                                     const Shape& aShape, const Shape& bShape, bool leftSide,
                                     const DebugContext& debugContext, const OptionFlags& options,
                                     PlanningCache*) {
  return Create("poplin::createTriangularSolveInputRHS", graph, inputType, aShape, bShape, leftSide,
                false, debugContext, options);
}

Tensor triangularMask(Graph& graph, const Tensor& a, bool lower, bool unitDiagonal, Sequence& prog,
                      const DebugContext& debugContext) {
  const CallSite site("poplin::triangularMask", graph, debugContext);
  site.CheckFloating("a", a);
  CheckSquare(site, "a", a.shape());
  const Tensor out = site.NewLike(a.elementType(), a);
  site.Add(prog, "poplin::triangularMask", TriangleAttributes(lower, unitDiagonal), {Batched(a)},
           {Batched(out)});
  return out;
}

Tensor triangularSolve(Graph& graph, const Tensor& a, const Tensor& b, bool leftSide, bool lower,
                       bool unitDiagonal, Sequence& prog, const DebugContext& debugContext,
                       const OptionFlags& options, PlanningCache*) {
  CheckOptionsOf("poplin::triangularSolve", options);
  const CallSite site("poplin::triangularSolve", graph, debugContext);
  site.CheckFloating("a", a);
  site.CheckType("b", b, a.elementType());
  CheckSystem(site, a.shape(), b.shape(), leftSide);
  const Tensor out = site.NewTensor(b.elementType(), b.shape());
  // X * a = b is a' * X' = b'.
  const auto side = [&](const Tensor& t) { return Batched(leftSide ? t : Transposed(t)); };
  site.Add(prog, "poplin::triangularSolve",
           TriangleAttributes(leftSide ? lower : !lower, unitDiagonal), {side(a), side(b)},
           {side(out)});
  return out;
}

std::vector<std::pair<MatMulParams, OptionFlags>> getTriangularSolveMatMulPrePlanParameters(
    const Type&, const Type&, const Shape&, const Shape&, bool, bool, const OptionFlags& options) {
  CheckOptionsOf("poplin::getTriangularSolveMatMulPrePlanParameters", options);
  return {};
}

Tensor cholesky(Graph& graph, const Tensor& a, bool lower, Sequence& prog,
                const DebugContext& debugContext, OptionFlags options, PlanningCache*) {
  CheckOptionsOf("poplin::cholesky", options);
  const CallSite site("poplin::cholesky", graph, debugContext);
  site.CheckFloating("a", a);
  CheckSquare(site, "a", a.shape());
  const Tensor out = site.NewLike(a.elementType(), a);
  site.Add(prog, "poplin::cholesky", TriangleAttributes(lower, false), {Batched(a)},
           {Batched(out)});
  return out;
}

void choleskyInPlace(Graph& graph, const Tensor& a, bool lower, Sequence& prog,
                     const DebugContext& debugContext, OptionFlags options, PlanningCache* cache) {
  prog.add(poplar::program::Copy(cholesky(graph, a, lower, prog, debugContext, options, cache), a,
                                 false, debugContext));
}

Tensor createCholeskyInput(Graph& graph, const Type& type, const Shape& shape, bool,
                           const DebugContext& debugContext, const OptionFlags& options,
                           PlanningCache*) {
  CheckOptionsOf("poplin::createCholeskyInput", options);
  const CallSite site("poplin::createCholeskyInput", graph, debugContext);
  CheckSquare(site, "shape", shape);
  return site.NewTensor(type, shape, "a");
}

std::vector<std::pair<MatMulParams, OptionFlags>> getCholeskyMatMulPrePlanParameters(
    const Type&, const Shape&, bool, OptionFlags options) {
  CheckOptionsOf("poplin::getCholeskyMatMulPrePlanParameters", options);
  return {};
}

Tensor linspace(Graph& graph, const Type& type, float left, float right, size_t count,
                const DebugContext& debugContext) {
  std::vector<float> values(count, left);
  for (size_t i = 1; i < count; ++i) {
    const float part = static_cast<float>(i) / static_cast<float>(count - 1);
    values[i] = left + (right - left) * part;
  }
  const Tensor tensor = graph.addConstant(type, {count}, values, debugContext);
  graph.setTileMapping(tensor, 0);
  return tensor;
}

std::vector<Tensor> meshgrid2d(Graph&, Tensor x, Tensor y) {
  const unsigned rows = static_cast<unsigned>(y.numElements());
  const unsigned columns = static_cast<unsigned>(x.numElements());
  return {x.flatten().expand({0}).broadcast(rows, 0),
          y.flatten().expand({1}).broadcast(columns, 1)};
}

namespace experimental {

std::pair<Tensor, Tensor> LUFactorization(Graph& graph, Tensor& input, Sequence& prog,
                                          const DebugContext& debugContext) {
  const CallSite site("poplin::experimental::LUFactorization", graph, debugContext);
  site.CheckFloating("input", input);
  site.CheckRank("input", input, 2);
  const Tensor lower = site.NewTensor(input.elementType(), {input.dim(0), input.dim(0)}, "L");
  const Tensor upper = site.NewTensor(input.elementType(), input.shape(), "U");
  site.Add(prog, "poplin::LUFactorization", {}, {input}, {lower, upper});
  return {lower, upper};
}

std::array<Tensor, 2> createQRFactorizationMatrices(Graph& graph, const Type& type, const size_t m,
                                                    const size_t n,
                                                    const DebugContext& debugContext) {
  const CallSite site("poplin::experimental::createQRFactorizationMatrices", graph, debugContext);
  return {{site.NewTensor(type, {m, n}, "A"), site.NewTensor(type, {m, m}, "Q")}};
}

void QRFactorization(Graph& graph, Tensor& A, Tensor& Q, Sequence& prog,
                     const DebugContext& debugContext, const OptionFlags& options) {
  poputil::CheckOptions("poplin::experimental::QRFactorization", options,
                        {{"rowsPerIteration", {}}});
  const CallSite site("poplin::experimental::QRFactorization", graph, debugContext);
  site.CheckFloating("A", A);
  site.CheckRank("A", A, 2);
  site.CheckShape("Q", Q, {A.dim(0), A.dim(0)});
  site.Add(prog, "poplin::QRFactorization", {}, {}, {A, Q});
}

}  // namespace experimental

namespace fc {

std::vector<std::pair<MatMulParams, OptionFlags>> getMatMulPrePlanParameters(
    FullyConnectedParams p, OptionFlags matmulOptions, Type type, bool inferenceOnly) {
  const auto product = [&](size_t m, size_t k, size_t n, const char* pass) {
    OptionFlags options = matmulOptions;
    options.set("fullyConnectedPass", pass);
    return std::make_pair(MatMulParams{type, type, {p.numGroups, m, k}, {p.numGroups, k, n}},
                          options);
  };
  const size_t batch = p.batchSize, in = p.inputSize, out = p.outputSize;
  if (inferenceOnly) return {product(batch, in, out, "INFERENCE_FWD")};
  return {product(batch, in, out, "TRAINING_FWD"), product(batch, out, in, "TRAINING_BWD"),
          product(in, batch, out, "TRAINING_WU")};
}

}  // namespace fc
}  // namespace poplin
