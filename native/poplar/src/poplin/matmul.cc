#include "poplin/MatMul.hpp"

#include <string>

#include "poplar/core/OpWork.hpp"
#include "poplin/codelets.hpp"
#include "poplin/options.h"
#include "poplin/product.h"
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

void addCodelets(Graph&) {}

namespace {

// ---- the kernel: out {g, m, n} = factor * a {g, m, k} * b {g, k, n}, where operands may be stored
// transposed. A third input is one more factor.

MatrixView ViewOf(const KernelCall& call, size_t index, size_t group, bool transposed) {
  const Shape& shape = call.InShape(index);
  return {call.in(index) + group * shape[1] * shape[2], shape[2], transposed};
}

void MatMulKernel(const KernelCall& call) {
  const Shape& out = call.OutShape(0);
  const bool transposed_a = call.attributes.Bool("transposed_a");
  const size_t k = call.InShape(0)[transposed_a ? 1 : 2];
  float factor = call.attributes.Float("factor");
  if (call.inputs.size() > 2) factor *= call.in(2)[0];
  for (size_t group = 0; group < out[0]; ++group) {
    Product product{out[1],
                    out[2],
                    k,
                    ViewOf(call, 0, group, transposed_a),
                    ViewOf(call, 1, group, call.attributes.Bool("transposed_b")),
                    call.out(0) + group * out[1] * out[2],
                    out[2]};
    product.factor = factor;
    product.accumulate = call.attributes.Bool("accumulate");
    MultiplyParallel(product);
  }
}

const poputil::FloatKernelRegistration kMatMul("poplin::matMul", MatMulKernel);
const poplar::core::WorkRegistration kMatMulWork(
    "poplin::matMul", [](const poplar::core::KernelSpec& spec) {
      const Shape &out = spec.outputs[0].shape, &a = spec.inputs[0].shape;
      const bool transposed = poputil::Attributes(spec.parameters).Bool("transposed_a");
      return poplar::core::MatrixWork{1, out[0], out[1], a[transposed ? 1 : 2], out[2]};
    });

// ---- checks

Shape Grouped(const Shape& shape) {
  Shape grouped = shape;
  if (grouped.size() == 2) grouped.insert(grouped.begin(), 1);
  return grouped;
}

// Returns the shape of the result, without groups for two dimensions.
Shape ResultShape(const CallSite& site, const Shape& a, const Shape& b, size_t rank) {
  const std::string form = rank == 2 ? "A {m, k} and B {k, n}" : "A {g, m, k} and B {g, k, n}";
  const std::string received =
      "received A " + poputil::ShapeText(a) + " and B " + poputil::ShapeText(b) + ".";
  if (a.size() != rank || b.size() != rank) {
    site.Fail("expected " + form + "; " + received +
              (rank == 2 ? " Use matMulGrouped for groups." : " Use matMul without groups."));
  }
  if (a[rank - 1] != b[rank - 2] || (rank == 3 && a[0] != b[0])) {
    site.Fail("expected " + form + " with equal sizes of one name; " + received +
              " Transpose an operand, or check its shape.");
  }
  Shape shape = a;
  shape.back() = b.back();
  return shape;
}

void CheckOperands(const CallSite& site, const Tensor& a, const Tensor& b, const Type& out) {
  site.CheckFloating("A", a);
  site.CheckType("B", b, a.elementType());
  site.CheckFloating("the result", out);
}

// ---- the op

struct Operand {
  explicit Operand(const Tensor& given)
      : tensor(given.rank() == 2 ? given.expand({0}) : given), transposed(false) {
    const Tensor other = tensor.dimShuffle({0, 2, 1});
    if (tensor.isContiguous() || !other.isContiguous()) return;
    tensor = other;
    transposed = true;
  }

  Tensor tensor;  // {groups, rows, columns} as stored
  bool transposed;
};

struct Update {
  float factor = 1;
  bool accumulate = false;
  Tensor scale;  // one more factor if valid
};

void AddProduct(const CallSite& site, const Tensor& a, const Tensor& b, const Tensor& out,
                Sequence& prog, const Update& update = {}) {
  const Operand left(a), right(b);
  std::vector<Tensor> inputs = {left.tensor, right.tensor};
  if (update.scale.valid()) inputs.push_back(update.scale.flatten());
  site.Add(prog, "poplin::matMul",
           Attributes()
               .Set("transposed_a", left.transposed)
               .Set("transposed_b", right.transposed)
               .Set("factor", update.factor)
               .Set("accumulate", update.accumulate),
           inputs, {out.rank() == 2 ? out.expand({0}) : out});
}

Tensor MakeProduct(const char* function, Graph& graph, const Tensor& a, const Tensor& b,
                   Sequence& prog, const Type& type, const DebugContext& debug,
                   const OptionFlags& options, size_t rank) {
  const CallSite site(function, graph, debug);
  CheckMatMulOptions(function, options);
  const Shape shape = ResultShape(site, a.shape(), b.shape(), rank);
  CheckOperands(site, a, b, type);
  Tensor out = site.NewTensor(type, shape);
  AddProduct(site, a, b, out, prog);
  return out;
}

void WriteProduct(const char* function, Graph& graph, const Tensor& a, const Tensor& b,
                  const Tensor& out, Sequence& prog, const DebugContext& debug,
                  const OptionFlags& options, size_t rank, const Update& update = {}) {
  const CallSite site(function, graph, debug);
  CheckMatMulOptions(function, options);
  CheckOperands(site, a, b, out.elementType());
  site.CheckShape(update.accumulate ? "C" : "out", out,
                  ResultShape(site, a.shape(), b.shape(), rank));
  if (update.scale.valid() && update.scale.numElements() != 1) {
    site.Fail("k has shape " + update.scale.shapeToString() + "; expected one element.");
  }
  AddProduct(site, a, b, out, prog, update);
}

Update Scaled(float factor) {
  Update update;
  update.factor = factor;
  update.accumulate = true;
  return update;
}

Update Scaled(const Tensor& scale) {
  Update update;
  update.scale = scale;
  update.accumulate = true;
  return update;
}

enum class Role { kLeft, kRight, kResult };

Tensor Create(const char* function, Graph& graph, const Type& in, const Type& out, const Shape& a,
              const Shape& b, const DebugContext& debug, const OptionFlags& options, Role role,
              size_t rank) {
  const CallSite site(function, graph, debug);
  CheckMatMulOptions(function, options);
  site.CheckFloating("the operands", in);
  site.CheckFloating("the result", out);
  const Shape result = ResultShape(site, a, b, rank);
  if (role == Role::kResult) return site.NewTensor(out, result);
  return site.NewTensor(in, role == Role::kLeft ? a : b, role == Role::kLeft ? "lhs" : "rhs");
}

Tensor Arrange(const char* function, Graph& graph, const Shape& a, const Tensor& b, Sequence& prog,
               const Type& out, const DebugContext& debug, const OptionFlags& options,
               size_t rank) {
  const Tensor arranged = Create(function, graph, b.elementType(), out, a, b.shape(), debug,
                                 options, Role::kRight, rank);
  prog.add(poplar::program::Copy(b, arranged, false, debug));
  return arranged;
}

void ReportPlan(std::ostream& out, const Type& input, const Type& output, const Shape& a,
                const Shape& b) {
  const Shape left = Grouped(a), right = Grouped(b);
  out << "poplin::matMul: groups " << left.front() << ", m " << left[1] << ", k " << left[2]
      << ", n " << right.back() << "; " << input << " to " << output << "\n"
      << "one product on the CPU in blocks for its caches\n"
      << "flops " << 2 * left.front() * left[1] * left[2] * right.back() << "\n";
}

}  // namespace

// ---- the functions

Tensor matMul(Graph& graph, const Tensor& A, const Tensor& B, Sequence& prog,
              const Type& outputType, const DebugContext& debugContext, const OptionFlags& options,
              PlanningCache*) {
  return MakeProduct("poplin::matMul", graph, A, B, prog, outputType, debugContext, options, 2);
}

Tensor matMul(Graph& graph, const Tensor& A, const Tensor& B, Sequence& prog,
              const DebugContext& debugContext, const OptionFlags& options, PlanningCache*) {
  return MakeProduct("poplin::matMul", graph, A, B, prog, A.elementType(), debugContext, options,
                     2);
}

void matMulWithOutput(Graph& graph, const Tensor& A, const Tensor& B, Tensor& out, Sequence& prog,
                      const DebugContext& debugContext, const OptionFlags& options,
                      PlanningCache*) {
  WriteProduct("poplin::matMulWithOutput", graph, A, B, out, prog, debugContext, options, 2);
}

Tensor matMulGrouped(Graph& graph, const Tensor& A, const Tensor& B, Sequence& prog,
                     const Type& outputType, const DebugContext& debugContext,
                     const OptionFlags& options, PlanningCache*) {
  return MakeProduct("poplin::matMulGrouped", graph, A, B, prog, outputType, debugContext, options,
                     3);
}

void matMulGroupedWithOutput(Graph& graph, const Tensor& A, const Tensor& B, Tensor& out,
                             Sequence& prog, const DebugContext& debugContext,
                             const OptionFlags& options, PlanningCache*) {
  WriteProduct("poplin::matMulGroupedWithOutput", graph, A, B, out, prog, debugContext, options, 3);
}

void matMulAcc(Graph& graph, const Tensor& C, float k, const Tensor& A, const Tensor& B,
               Sequence& prog, const DebugContext& debugContext, const OptionFlags& options,
               PlanningCache*) {
  WriteProduct("poplin::matMulAcc", graph, A, B, C, prog, debugContext, options, 2, Scaled(k));
}

void matMulAcc(Graph& graph, const Tensor& C, const Tensor& k, const Tensor& A, const Tensor& B,
               Sequence& prog, const DebugContext& debugContext, const OptionFlags& options,
               PlanningCache*) {
  WriteProduct("poplin::matMulAcc", graph, A, B, C, prog, debugContext, options, 2, Scaled(k));
}

void matMulGroupedAcc(Graph& graph, const Tensor& C, float k, const Tensor& A, const Tensor& B,
                      Sequence& prog, const DebugContext& debugContext, const OptionFlags& options,
                      PlanningCache*) {
  WriteProduct("poplin::matMulGroupedAcc", graph, A, B, C, prog, debugContext, options, 3,
               Scaled(k));
}

void matMulGroupedAcc(Graph& graph, const Tensor& C, const Tensor& k, const Tensor& A,
                      const Tensor& B, Sequence& prog, const DebugContext& debugContext,
                      const OptionFlags& options, PlanningCache*) {
  WriteProduct("poplin::matMulGroupedAcc", graph, A, B, C, prog, debugContext, options, 3,
               Scaled(k));
}

Tensor createMatMulInputLHS(Graph& graph, const Type& inputType, const Type& outputType,
                            const Shape& aShape, const Shape& bShape,
                            const DebugContext& debugContext, const OptionFlags& options,
                            PlanningCache*) {
  return Create("poplin::createMatMulInputLHS", graph, inputType, outputType, aShape, bShape,
                debugContext, options, Role::kLeft, 2);
}

Tensor createMatMulInputLHS(Graph& graph, const Type& dataType, const Shape& aShape,
                            const Shape& bShape, const DebugContext& debugContext,
                            const OptionFlags& options, PlanningCache* cache) {
  return createMatMulInputLHS(graph, dataType, dataType, aShape, bShape, debugContext, options,
                              cache);
}

Tensor createMatMulInputRHS(Graph& graph, const Type& inputType, const Type& outputType,
                            const Shape& aShape, const Shape& bShape,
                            const DebugContext& debugContext, const OptionFlags& options,
                            PlanningCache*) {
  return Create("poplin::createMatMulInputRHS", graph, inputType, outputType, aShape, bShape,
                debugContext, options, Role::kRight, 2);
}

Tensor createMatMulInputRHS(Graph& graph, const Type& dataType, const Shape& aShape,
                            const Shape& bShape, const DebugContext& debugContext,
                            const OptionFlags& options, PlanningCache* cache) {
  return createMatMulInputRHS(graph, dataType, dataType, aShape, bShape, debugContext, options,
                              cache);
}

Tensor createMatMulOutput(Graph& graph, const Type& inputType, const Type& outputType,
                          const Shape& aShape, const Shape& bShape,
                          const DebugContext& debugContext, const OptionFlags& options,
                          PlanningCache*) {
  return Create("poplin::createMatMulOutput", graph, inputType, outputType, aShape, bShape,
                debugContext, options, Role::kResult, 2);
}

Tensor createMatMulOutput(Graph& graph, const Type& dataType, const Shape& aShape,
                          const Shape& bShape, const DebugContext& debugContext,
                          const OptionFlags& options, PlanningCache* cache) {
  return createMatMulOutput(graph, dataType, dataType, aShape, bShape, debugContext, options,
                            cache);
}

Tensor createMatMulGroupedInputLHS(Graph& graph, const Type& inputType, const Type& outputType,
                                   const Shape& aShape, const Shape& bShape,
                                   const DebugContext& debugContext, const OptionFlags& options,
                                   PlanningCache*) {
  return Create("poplin::createMatMulGroupedInputLHS", graph, inputType, outputType, aShape, bShape,
                debugContext, options, Role::kLeft, 3);
}

Tensor createMatMulGroupedInputRHS(Graph& graph, const Type& inputType, const Type& outputType,
                                   const Shape& aShape, const Shape& bShape,
                                   const DebugContext& debugContext, const OptionFlags& options,
                                   PlanningCache*) {
  return Create("poplin::createMatMulGroupedInputRHS", graph, inputType, outputType, aShape, bShape,
                debugContext, options, Role::kRight, 3);
}

Tensor createMatMulGroupedOutput(Graph& graph, const Type& inputType, const Type& outputType,
                                 const Shape& aShape, const Shape& bShape,
                                 const DebugContext& debugContext, const OptionFlags& options,
                                 PlanningCache*) {
  return Create("poplin::createMatMulGroupedOutput", graph, inputType, outputType, aShape, bShape,
                debugContext, options, Role::kResult, 3);
}

Tensor preArrangeMatMulInputRHS(Graph& graph, const Shape& aShape, const Tensor& B, Sequence& prog,
                                const Type& outputType, const DebugContext& debugContext,
                                const OptionFlags& options, PlanningCache*) {
  return Arrange("poplin::preArrangeMatMulInputRHS", graph, aShape, B, prog, outputType,
                 debugContext, options, 2);
}

Tensor preArrangeMatMulInputRHS(Graph& graph, const Shape& aShape, const Tensor& B, Sequence& prog,
                                const DebugContext& debugContext, const OptionFlags& options,
                                PlanningCache* cache) {
  return preArrangeMatMulInputRHS(graph, aShape, B, prog, B.elementType(), debugContext, options,
                                  cache);
}

Tensor preArrangeMatMulGroupedInputRHS(Graph& graph, const Shape& aShape, const Tensor& B,
                                       Sequence& prog, const Type& outputType,
                                       const DebugContext& debugContext, const OptionFlags& options,
                                       PlanningCache*) {
  return Arrange("poplin::preArrangeMatMulGroupedInputRHS", graph, aShape, B, prog, outputType,
                 debugContext, options, 3);
}

Tensor transposeGroupedMatrix(const Tensor& A) { return A.dimShuffle({0, 2, 1}); }

void matmulValidateOptions(const OptionFlags& options) {
  CheckMatMulOptions("poplin::matmulValidateOptions", options);
}

void matMulReportPlan(std::ostream& out, const Graph&, const Type& inputType,
                      const Type& outputType, const Shape& aShape, const Shape& bShape,
                      const OptionFlags& options, PlanningCache*) {
  CheckMatMulOptions("poplin::matMulReportPlan", options);
  ReportPlan(out, inputType, outputType, aShape, bShape);
}

void matMulGroupedReportPlan(std::ostream& out, const Graph&, const Type& inputType,
                             const Type& outputType, const Shape& aShape, const Shape& bShape,
                             const OptionFlags& options, PlanningCache*) {
  CheckMatMulOptions("poplin::matMulGroupedReportPlan", options);
  ReportPlan(out, inputType, outputType, aShape, bShape);
}

void preplanMatMuls(const std::set<MatMulPlanParams>& matmuls, matmul::PlanningCache&) {
  for (const MatMulPlanParams& params : matmuls) {
    const OptionFlags* options = std::get<2>(params);
    if (options != nullptr) CheckMatMulOptions("poplin::preplanMatMuls", *options);
  }
}

}  // namespace poplin
