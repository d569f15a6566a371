// Cases of poplin; see test_*.py beside this file.
#include "../cases.h"

#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>

#include <sstream>

using namespace poplar;
using namespace poplar::program;

namespace {

OptionFlags options(const Case &c) {
  OptionFlags flags;
  if (c.has("option")) flags.set(c.word("option"), c.word("option_value"));
  return flags;
}

void matMul(Case &c) {
  poplin::PlanningCache cache;
  Tensor a = c.in("a"), b = c.in("b");
  if (c.flag("transpose_a")) a = a.transpose();
  if (c.flag("transpose_b")) b = b.transpose();
  if (c.has("type")) {
    c.out("out", poplin::matMul(c.graph, a, b, c.prog, c.type("type"), "product", options(c)));
  } else {
    c.out("out", poplin::matMul(c.graph, a, b, c.prog, "product", options(c), &cache));
  }
}

void matMulGrouped(Case &c) {
  Tensor a = c.in("a"), b = c.in("b");
  if (c.flag("transpose_b")) b = poplin::transposeGroupedMatrix(b);
  c.out("out", poplin::matMulGrouped(c.graph, a, b, c.prog, a.elementType()));
}

void matMulAcc(Case &c) {
  Tensor a = c.in("a"), b = c.in("b"), sum = c.in("c");
  if (a.rank() == 3) {
    if (c.has("scale")) {
      poplin::matMulGroupedAcc(c.graph, sum, c.in("scale"), a, b, c.prog);
    } else {
      poplin::matMulGroupedAcc(c.graph, sum, c.number("k"), a, b, c.prog);
    }
  } else if (c.has("scale")) {
    poplin::matMulAcc(c.graph, sum, c.in("scale"), a, b, c.prog);
  } else {
    poplin::matMulAcc(c.graph, sum, c.number("k"), a, b, c.prog);
  }
  c.out("out", sum);
}

// The tensors of createMatMul... as operands.
void created(Case &c) {
  const std::vector<size_t> a_shape = c.list("a_shape"), b_shape = c.list("b_shape");
  Tensor a, b, out;
  if (a_shape.size() == 3) {
    a = poplin::createMatMulGroupedInputLHS(c.graph, HALF, FLOAT, a_shape, b_shape, "a");
    b = poplin::createMatMulGroupedInputRHS(c.graph, HALF, FLOAT, a_shape, b_shape, "b");
    out = poplin::createMatMulGroupedOutput(c.graph, HALF, FLOAT, a_shape, b_shape, "out");
  } else {
    a = poplin::createMatMulInputLHS(c.graph, FLOAT, a_shape, b_shape, "a");
    b = poplin::createMatMulInputRHS(c.graph, FLOAT, a_shape, b_shape, "b");
    out = poplin::createMatMulOutput(c.graph, FLOAT, a_shape, b_shape, "out");
  }
  c.set("a", a);
  c.set("b", b);
  if (a_shape.size() == 3) {
    b = poplin::preArrangeMatMulGroupedInputRHS(c.graph, a_shape, b, c.prog, FLOAT);
    poplin::matMulGroupedWithOutput(c.graph, a, b, out, c.prog);
  } else {
    b = poplin::preArrangeMatMulInputRHS(c.graph, a_shape, b, c.prog);
    poplin::matMulWithOutput(c.graph, a, b, out, c.prog);
  }
  c.out("out", out);
  unsigned tiles = 0;
  for (const std::vector<Interval> &tile : c.graph.getTileMapping(out)) tiles += !tile.empty();
  c.note("tiles", tiles);
}

// A call that makes no plan: options are checked, and the report has the shapes.
void plans(Case &c) {
  std::ostringstream report;
  poplin::matMulReportPlan(report, c.graph, HALF, FLOAT, {2, 3}, {3, 4});
  poplin::matMulGroupedReportPlan(report, c.graph, FLOAT, FLOAT, {5, 2, 3}, {5, 3, 4});
  poplin::matmul::PlanningCache cache;
  const OptionFlags flags = options(c);
  poplin::matmulValidateOptions(flags);
  const poplin::MatMulParams params{FLOAT, FLOAT, {2, 3}, {3, 4}};
  poplin::preplanMatMuls({poplin::MatMulPlanParams(&c.graph.getTarget(), params, &flags)}, cache);
  const bool good = report.str().find("groups 5, m 2, k 3, n 4") != std::string::npos;
  c.note("good", good && cache.size() == 0);
}

const Cases cases = {
    {"matMul", matMul},       {"matMulGrouped", matMulGrouped},
    {"matMulAcc", matMulAcc}, {"created", created},
    {"plans", plans},
};

}  // namespace

int main(int argc, char **argv) { return runCase(argc, argv, cases); }
