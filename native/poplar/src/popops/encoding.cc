#include "popops/Encoding.hpp"

#include "poplar/core/LibraryOp.hpp"
#include "popops/SelectScalarFromRows.hpp"
#include "popops/UpdateScalarInRows.hpp"
#include "popops/ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Sequence;
using poputil::Call;
using poputil::TextOf;

namespace {

void CheckIndices(const Tensor& indices, const Call& call) {
  const Type type = indices.elementType();
  call.Require(type == poplar::UNSIGNED_INT || type == poplar::INT,
               "indices have to be of unsigned int or int, not of " + TextOf(type) + ".");
}

Tensor Number(Graph& graph, const Type& type, int value, const DebugContext& context) {
  const Tensor number = graph.addConstant(type, {}, value, context);
  graph.setTileMapping(number, 0);
  return number;
}

void CheckRows(const Tensor& params, const Tensor& indices, const Call& call) {
  CheckIndices(indices, call);
  call.Require(params.rank() == 2,
               "params has to be of rank 2, not of " + TextOf(params.shape()) + ".");
  call.RequireShape("indices", indices, {params.dim(0)});
}

void AddIota(Graph& graph, const Tensor& t, long long start, Sequence& prog,
             const DebugContext& context) {
  const Call call("popops::iota", context);
  call.RequireWriteable("the tensor", t);
  call.Require(t.elementType() != poplar::BOOL, "elements of bool cannot count.");
  prog.add(poplar::core::libraryOp(graph, "popops::iota", ParameterWriter().Add(start).text(), {},
                                   {t}, context));
}

}  // namespace

void encodeOneHot(Graph& graph, const Tensor& indices, const Tensor& encoded, Sequence& prog,
                  const Tensor& on, const Tensor& off, const DebugContext& debugContext) {
  const Call call("popops::encodeOneHot", debugContext);
  CheckIndices(indices, call);
  call.Require(encoded.rank() > 0, "encoded has no dimension of classes.");
  std::vector<size_t> shape = indices.shape();
  shape.push_back(encoded.dim(encoded.rank() - 1));
  call.RequireShape("encoded", encoded, shape);
  call.RequireWriteable("encoded", encoded);
  call.RequireType("on", on, encoded.elementType());
  call.RequireType("off", off, encoded.elementType());
  call.Require(on.numElements() == 1 && off.numElements() == 1, "on and off are one element each.");
  prog.add(poplar::core::libraryOp(graph, "popops::encodeOneHot", "", {indices, on, off}, {encoded},
                                   debugContext));
}

void encodeOneHot(Graph& graph, const Tensor& indices, const Tensor& encoded, Sequence& prog,
                  const DebugContext& debugContext) {
  const Type type = encoded.elementType();
  encodeOneHot(graph, indices, encoded, prog, Number(graph, type, 1, debugContext),
               Number(graph, type, 0, debugContext), debugContext);
}

void iota(Graph& graph, const Tensor& t, unsigned startInteger, Sequence& prog,
          const DebugContext& debugContext) {
  AddIota(graph, t, startInteger, prog, debugContext);
}

void iota(Graph& graph, const Tensor& t, int startInteger, Sequence& prog,
          const DebugContext& debugContext) {
  AddIota(graph, t, startInteger, prog, debugContext);
}

Tensor selectScalarFromRows(Graph& graph, const Tensor& params, const Tensor& indices,
                            Sequence& prog, const DebugContext& debugContext) {
  const Call call("popops::selectScalarFromRows", debugContext);
  CheckRows(params, indices, call);
  const Tensor result = NewLinear(graph, params.elementType(), indices.shape(), debugContext);
  prog.add(poplar::core::libraryOp(graph, "popops::selectScalarFromRows", "", {params, indices},
                                   {result}, debugContext));
  return result;
}

void updateScalarInRows(Graph& graph, const Tensor& params, const Tensor& indices,
                        Sequence& program, const DebugContext& debugContext) {
  const Call call("popops::updateScalarInRows", debugContext);
  CheckRows(params, indices, call);
  call.RequireWriteable("params", params);
  program.add(poplar::core::libraryOp(graph, "popops::updateScalarInRows", "", {params, indices},
                                      {params}, debugContext,
                                      poplar::core::KernelAliasing::SameTensor));
}

}  // namespace popops
