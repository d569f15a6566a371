#include "popops/Reduce.hpp"

#include <algorithm>

#include "poplar/core/LibraryOp.hpp"
#include "popops/AllTrue.hpp"
#include "popops/ElementWise.hpp"
#include "popops/NaN.hpp"
#include "popops/ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::ComputeSet;
using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Program;
using poplar::program::Sequence;
using poputil::Call;
using poputil::TextOf;

namespace {

constexpr const char* kNames[] = {"ADD",         "MUL",        "MIN",        "MAX",
                                  "LOGICAL_AND", "LOGICAL_OR", "SQUARE_ADD", "LOG_ADD"};

const char* NameOf(Operation op) { return kNames[static_cast<size_t>(op)]; }

// The sizes of the dimensions that stay.
std::vector<size_t> RemainingShape(const Tensor& in, const std::vector<size_t>& dims,
                                   const Call& call) {
  std::vector<bool> reduced(in.rank(), false);
  for (const size_t d : dims) {
    if (d >= in.rank()) {
      call.Fail("dimension " + std::to_string(d) + " does not exist in shape " +
                TextOf(in.shape()) + ".");
    }
    call.Require(!reduced[d], "dimension " + std::to_string(d) + " is named twice.");
    reduced[d] = true;
  }
  std::vector<size_t> shape;
  for (unsigned d = 0; d < in.rank(); ++d) {
    if (!reduced[d]) shape.push_back(in.dim(d));
  }
  return shape;
}

bool IsLogical(Operation op) { return op == Operation::LOGICAL_AND || op == Operation::LOGICAL_OR; }

void CheckParams(const Tensor& in, const Type& outType, const ReduceParams& params,
                 const Call& call) {
  const Type type = in.elementType();
  const std::string op = NameOf(params.op);
  if (IsLogical(params.op) != (type == poplar::BOOL)) {
    call.Fail(op + " is not defined for elements of " + TextOf(type) + ".");
  }
  if (params.op == Operation::LOG_ADD && !type.isFloatingPoint()) {
    call.Fail("LOG_ADD is not defined for elements of " + TextOf(type) + ".");
  }
  const bool both_float = type.isFloatingPoint() && outType.isFloatingPoint();
  if (type != outType && !both_float) {
    call.Fail("elements of " + TextOf(type) + " cannot be reduced to " + TextOf(outType) + ".");
  }
  const bool sums = params.op == Operation::ADD || params.op == Operation::SQUARE_ADD ||
                    params.op == Operation::LOG_ADD;
  if ((params.useScale || params.update) && !sums) {
    call.Fail("only ADD, SQUARE_ADD and LOG_ADD have a scale or update their output, not " + op +
              ".");
  }
  if (!params.useScale) return;
  call.Require(params.scale.valid() && params.scale.numElements() == 1,
               "the scale has to be one element.");
  call.Require(params.scale.elementType().isFloatingPoint() == type.isFloatingPoint(),
               "the scale is of " + TextOf(params.scale.elementType()) + ", the elements of " +
                   TextOf(type) + ".");
}

Program ReduceOp(Graph& graph, const Tensor& in, const Tensor& out, const std::vector<size_t>& dims,
                 const ReduceParams& params, const OptionFlags& options, const Call& call) {
  call.CheckOptions(options, {"accumType.interTile", "accumType.inVertex"});
  CheckParams(in, out.elementType(), params, call);
  call.RequireShape("the output", out, RemainingShape(in, dims, call));
  call.RequireWriteable("the output", out);
  std::vector<Tensor> inputs = {in};
  if (params.useScale) inputs.push_back(params.scale);
  if (params.update) inputs.push_back(out);
  const std::string text = ParameterWriter()
                               .Add(static_cast<int>(params.op))
                               .Add(dims)
                               .Add(params.useScale)
                               .Add(params.update)
                               .text();
  return poplar::core::libraryOp(graph, "popops::reduce", text, inputs, {out}, call.context(),
                                 params.update ? poplar::core::KernelAliasing::SameTensor
                                               : poplar::core::KernelAliasing::None);
}

Tensor NewOutput(Graph& graph, const Tensor& in, const Type& type, const std::vector<size_t>& dims,
                 const ReduceParams& params, const Call& call) {
  call.Require(!params.update, "an update needs an output: use reduceWithOutput.");
  return NewLinear(graph, type, RemainingShape(in, dims, call), call.context());
}

// Adds an op to the first of the compute sets, which is made if there is none.
void AddToFirst(Graph& graph, std::vector<ComputeSet>& css, const Program& op, const Call& call) {
  if (css.empty()) css.push_back(graph.addComputeSet(call.context()));
  poplar::core::addToComputeSet(graph, css.front(), op);
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const Operation& op) { return os << NameOf(op); }

std::istream& operator>>(std::istream& in, Operation& op) {
  std::string name;
  in >> name;
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    throw poputil::poplibs_error("popops::Operation: there is no operation '" + name + "'.");
  }
  op = static_cast<Operation>(found - std::begin(kNames));
  return in;
}

Tensor reduce(Graph& graph, const Tensor& in, const Type& outType, const std::vector<size_t>& dims,
              ReduceParams params, Sequence& prog, const DebugContext& debugContext,
              const OptionFlags& options) {
  const Call call("popops::reduce", debugContext);
  const Tensor out = NewOutput(graph, in, outType, dims, params, call);
  prog.add(ReduceOp(graph, in, out, dims, params, options, call));
  return out;
}

Tensor reduce(Graph& graph, const Tensor& in, const std::vector<size_t>& dims, ReduceParams params,
              Sequence& prog, const DebugContext& debugContext, const OptionFlags& options) {
  return reduce(graph, in, in.elementType(), dims, params, prog, debugContext, options);
}

Tensor reduce(Graph& graph, const Tensor& in, const Type& outType, const std::vector<size_t>& dims,
              ReduceParams params, std::vector<ComputeSet>& css, const DebugContext& debugContext,
              const OptionFlags& options) {
  const Call call("popops::reduce", debugContext);
  const Tensor out = NewOutput(graph, in, outType, dims, params, call);
  AddToFirst(graph, css, ReduceOp(graph, in, out, dims, params, options, call), call);
  return out;
}

Tensor reduce(Graph& graph, const Tensor& in, const std::vector<size_t>& dims, ReduceParams params,
              std::vector<ComputeSet>& css, const DebugContext& debugContext,
              const OptionFlags& options) {
  return reduce(graph, in, in.elementType(), dims, params, css, debugContext, options);
}

void reduceWithOutput(Graph& graph, const Tensor& in, const Tensor& out,
                      const std::vector<size_t>& dims, ReduceParams params, Sequence& prog,
                      const DebugContext& debugContext, const OptionFlags& options) {
  const Call call("popops::reduceWithOutput", debugContext);
  prog.add(ReduceOp(graph, in, out, dims, params, options, call));
}

void reduceWithOutput(Graph& graph, const Tensor& in, const Tensor& out,
                      const std::vector<size_t>& dims, ReduceParams params,
                      std::vector<ComputeSet>& css, const DebugContext& debugContext,
                      const OptionFlags& options) {
  const Call call("popops::reduceWithOutput", debugContext);
  AddToFirst(graph, css, ReduceOp(graph, in, out, dims, params, options, call), call);
}

void reduceMany(Graph& graph, const std::vector<SingleReduceOp>& reductions,
                std::vector<Tensor>& outputs, Sequence& prog, const DebugContext& debugContext,
                const OptionFlags& options) {
  const Call call("popops::reduceMany", debugContext);
  if (!outputs.empty() && outputs.size() != reductions.size()) {
    call.Fail(std::to_string(outputs.size()) + " outputs are given for " +
              std::to_string(reductions.size()) + " reductions.");
  }
  outputs.resize(reductions.size());
  for (size_t i = 0; i < reductions.size(); ++i) {
    const SingleReduceOp& op = reductions[i];
    if (!outputs[i].valid()) {
      outputs[i] = NewOutput(graph, op.in, op.outType, op.dims, op.params, call);
    }
    prog.add(ReduceOp(graph, op.in, outputs[i], op.dims, op.params, options, call));
  }
}

Tensor allTrue(Graph& graph, Tensor A, Sequence& prog, const DebugContext& debugContext) {
  Call("popops::allTrue", debugContext).RequireType("the tensor", A, poplar::BOOL);
  return reduce(graph, A.flatten(), {0}, Operation::LOGICAL_AND, prog, debugContext);
}

namespace {

Tensor AnyTrue(Graph& graph, const expr::Expr& expression, const Tensor& src, Sequence& prog,
               const DebugContext& context) {
  const Tensor found = map(graph, expression, {src.flatten()}, prog, context);
  return reduce(graph, found, {0}, Operation::LOGICAL_OR, prog, context);
}

}  // namespace

Tensor hasNaN(Graph& graph, const Tensor& src, Sequence& prog, const DebugContext& debugContext) {
  return AnyTrue(graph, expr::IsNaN(expr::_1), src, prog, debugContext);
}

Tensor hasNaNOrInf(Graph& graph, const Tensor& src, Sequence& prog,
                   const DebugContext& debugContext) {
  return AnyTrue(graph, !expr::IsFinite(expr::_1), src, prog, debugContext);
}

}  // namespace popops

std::string poputil::VertexTemplateToString<popops::Operation>::to_string(
    const popops::Operation& op) {
  return std::string("popops::Operation::") + popops::NameOf(op);
}
