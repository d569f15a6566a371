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

bool IsFloating(const Type& type) { return type == poplar::FLOAT || type == poplar::HALF; }

// From or to 8-bit floats, with the metadata of that tensor.
Program QuarterOp(Graph& graph, const Tensor& src, const Tensor& dst, const Call& call) {
  const bool decodes = src.elementType() == poplar::QUARTER;
  const Type other = decodes ? dst.elementType() : src.elementType();
  call.Require(IsFloating(other),
               "quarters are cast from and to float and half, not " + poputil::TextOf(other) + ".");
  const char* kernel = decodes ? "popops::castFromQuarter" : "popops::castToQuarter";
  const Tensor metadata = (decodes ? src : dst).getMetadata();
  return poplar::core::libraryOp(graph, kernel, "", {src, metadata}, {dst}, call.context());
}

Program CastOp(Graph& graph, const Tensor& src, const Tensor& dst, const Call& call) {
  call.RequireShape("dst", dst, src.shape());
  call.RequireWriteable("dst", dst);
  if (src.elementType() == poplar::QUARTER || dst.elementType() == poplar::QUARTER) {
    return QuarterOp(graph, src, dst, call);
  }
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
  const Call call("popops::cast", debugContext);
  call.Require(dstType != poplar::QUARTER,
               "quarters have a format and a scale: give a tensor of metadata.");
  if (src.elementType() == poplar::QUARTER) {
    const Tensor dst = NewLike(graph, src, dstType, debugContext);
    prog.add(CastOp(graph, src, dst, call));
    return dst;
  }
  return core::elementWise(graph, expr::Cast(expr::_1, dstType), {src}, prog, debugContext, {},
                           "popops::cast");
}

Tensor cast(Graph& graph, const Tensor& src, const Type& dstType, const Tensor& metadata,
            Sequence& prog, const DebugContext& debugContext) {
  const Call call("popops::cast", debugContext);
  call.Require(dstType == poplar::QUARTER,
               "metadata are for quarters, not for " + poputil::TextOf(dstType) + ".");
  call.RequireType("metadata", metadata, poplar::QUARTER_METADATA);
  call.Require(metadata.numElements() == 1, "metadata have to be one element.");
  // Between two formats, by way of float, which has all numbers of both.
  const Tensor from =
      src.elementType() == dstType ? cast(graph, src, poplar::FLOAT, prog, debugContext) : src;
  const Tensor dst = graph.addVariable(dstType, metadata, src.shape(), debugContext);
  graph.setTileMapping(dst, graph.getTileMapping(src));
  prog.add(CastOp(graph, from, dst, call));
  return dst;
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
