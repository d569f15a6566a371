#include "popops/Cast.hpp"

#include <cmath>

#include "poplar/core/LibraryOp.hpp"
#include "popops/ElementWise.hpp"
#include "popops/ops.h"
#include "popops/typed_expression.h"
#include "poputil/call.h"

namespace popops {

using poplar::ComputeSet;
using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Program;
using poplar::program::Sequence;
using poputil::Call;

namespace {

Program CastOp(Graph& graph, const Tensor& src, const Tensor& dst, const Call& call) {
  call.RequireShape("dst", dst, src.shape());
  call.RequireWriteable("dst", dst);
  const expr::Cast expression(expr::_1, dst.elementType());
  const std::string text = TypesOf(expression, {src}, nullptr, call).text;
  return poplar::core::libraryOp(graph, "popops::map", text, {src}, {dst}, call.context(),
                                 poplar::core::KernelAliasing::SameTensor);
}

Tensor NewLike(Graph& graph, const Tensor& src, const Type& type, const DebugContext& context) {
  return graph.clone(type, src, context, poplar::TensorCloneMethod::CREATE_NEW_ORDER);
}

}  // namespace

Tensor cast(Graph& graph, const Tensor& src, const Type& dstType, Sequence& prog,
            const DebugContext& debugContext) {
  return core::elementWise(graph, expr::Cast(expr::_1, dstType), {src}, prog, debugContext, {},
                           "popops::cast");
}

Tensor cast(Graph&, const Tensor&, const Type&, const Tensor&, Sequence&,
            const DebugContext& debugContext) {
  Call("popops::cast", debugContext)
      .Fail("types with metadata (8-bit floats) are not there: cast to half instead.");
}

Program cast(Graph& graph, Tensor src, Tensor dst, const DebugContext& debugContext) {
  return CastOp(graph, src, dst, Call("popops::cast", debugContext));
}

void cast(Graph& graph, Tensor src, Tensor dst, ComputeSet computeSet) {
  const Program op = CastOp(graph, src, dst, Call("popops::cast", DebugContext()));
  poplar::core::addToComputeSet(graph, computeSet, op);
}

Tensor cast(Graph& graph, Tensor src, const Type& dstType, ComputeSet computeSet,
            const DebugContext& debugContext) {
  const Tensor dst = NewLike(graph, src, dstType, debugContext);
  const Program op = CastOp(graph, src, dst, Call("popops::cast", debugContext));
  poplar::core::addToComputeSet(graph, computeSet, op);
  return dst;
}

void castWithOutput(Graph& graph, const Tensor& src, const Tensor& dst, Sequence& prog,
                    const DebugContext& debugContext) {
  prog.add(CastOp(graph, src, dst, Call("popops::castWithOutput", debugContext)));
}

Tensor checkAccuracyWhenCast(Graph& graph, const Tensor& input, Type outputType, double tolerance,
                             Sequence& prog, const DebugContext& debugContext) {
  const Call call("popops::checkAccuracyWhenCast", debugContext);
  call.Require(input.numElements() == 1, "the input has to be one element.");
  using namespace expr;
  const Cast there(Cast(_1, outputType), input.elementType());
  return map(graph, Abs(there - _1) <= Abs(_1) * Const(tolerance), {input}, prog, debugContext);
}

}  // namespace popops
