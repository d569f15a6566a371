// Cases of triangular systems, factors and grids; see test_factors.py.
#include "../cases.h"

#include <poplin/Cholesky.hpp>
#include <poplin/FullyConnected.hpp>
#include <poplin/MeshGrid.hpp>
#include <poplin/TriangularSolve.hpp>
#include <poplin/experimental/LuFactorization.hpp>
#include <poplin/experimental/QRFactorization.hpp>

using namespace poplar;
using namespace poplar::program;

namespace {

void triangular(Case &c) {
  const bool left = c.flag("left"), lower = c.flag("lower"), unit = c.flag("unit");
  const std::vector<size_t> a_shape = c.list("a_shape"), b_shape = c.list("b_shape");
  const Tensor a =
      poplin::createTriangularSolveInputLHS(c.graph, FLOAT, FLOAT, a_shape, b_shape, left, "a");
  const Tensor b =
      poplin::createTriangularSolveInputRHS(c.graph, FLOAT, FLOAT, a_shape, b_shape, left, "b");
  c.set("a", a);
  c.set("b", b);
  c.out("mask", poplin::triangularMask(c.graph, a, lower, unit, c.prog));
  c.out("x", poplin::triangularSolve(c.graph, a, b, left, lower, unit, c.prog, "solve",
                                     {{"blockSize", "16"}}));
  c.note("plans", static_cast<double>(poplin::getTriangularSolveMatMulPrePlanParameters(
                                          FLOAT, FLOAT, a_shape, b_shape, left, lower, {})
                                          .size()));
}

void cholesky(Case &c) {
  const bool lower = c.flag("lower");
  const Tensor a = poplin::createCholeskyInput(c.graph, FLOAT, c.list("shape"), lower, "a");
  c.set("a", a);
  c.out("factor", poplin::cholesky(c.graph, a, lower, c.prog));
  const Tensor same = c.graph.clone(a);
  c.prog.add(Copy(a, same));
  poplin::choleskyInPlace(c.graph, same, lower, c.prog);
  c.out("in_place", same);
}

void factors(Case &c) {
  Tensor a = c.in("a");
  const std::pair<Tensor, Tensor> lu = poplin::experimental::LUFactorization(c.graph, a, c.prog);
  c.out("l", lu.first);
  c.out("u", lu.second);
  std::array<Tensor, 2> qr =
      poplin::experimental::createQRFactorizationMatrices(c.graph, FLOAT, a.dim(0), a.dim(1), "qr");
  c.prog.add(Copy(a, qr[0]));
  poplin::experimental::QRFactorization(c.graph, qr[0], qr[1], c.prog);
  c.out("r", qr[0]);
  c.out("q", qr[1]);
}

void grid(Case &c) {
  const Tensor x = poplin::linspace(c.graph, FLOAT, -1, 1, 5);
  const Tensor y = poplin::linspace(c.graph, FLOAT, 0, 2, 3);
  const std::vector<Tensor> views = poplin::meshgrid2d(c.graph, x, y);
  c.out("x", views[0]);
  c.out("y", views[1]);
  const auto plans = poplin::fc::getMatMulPrePlanParameters({1, 2, 3, 4}, {}, HALF, false);
  c.note("plans", static_cast<double>(plans.size()));
  c.note("update", plans[2].first.aShape == std::vector<size_t>({1, 3, 2}) &&
                       plans[2].second.at("fullyConnectedPass") == "TRAINING_WU");
}

const Cases cases = {
    {"triangular", triangular}, {"cholesky", cholesky}, {"factors", factors}, {"grid", grid}};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
