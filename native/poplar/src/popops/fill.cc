#include "popops/Fill.hpp"

#include "poplar/core/LibraryOp.hpp"
#include "popops/Zero.hpp"
#include "popops/typed_expression.h"
#include "poputil/call.h"

namespace popops {

using poplar::ComputeSet;
using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using poplar::program::Program;
using poplar::program::Sequence;
using poputil::Call;

namespace core {

Program fillOp(Graph& graph, const Tensor& t, const expr::Const& value,
               const DebugContext& debugContext, const char* function) {
  const Call call(function, debugContext);
  call.RequireWriteable("the tensor", t);
  const poplar::Type type = t.elementType();
  if (t.numElements() == 0) return Sequence();
  const std::string text = TypesOf(value, {}, &type, call).text;
  return poplar::core::libraryOp(graph, "popops::map", text, {}, {t}, debugContext);
}

void fillInComputeSet(Graph& graph, const Tensor& t, ComputeSet computeSet,
                      const expr::Const& value, const char* function) {
  poplar::core::addToComputeSet(graph, computeSet,
                                fillOp(graph, t, value, DebugContext(), function));
}

Tensor concatRegions(const Tensor& t, const std::vector<Interval>& regions) {
  const Tensor flat = t.flatten();
  if (regions.empty()) return flat.slice(0, 0);
  return poplar::concat(flat.slices(regions));
}

}  // namespace core

void zero(Graph& graph, Tensor t, const std::vector<Interval>& tileRegions, unsigned,
          ComputeSet zeroCS) {
  core::fillInComputeSet(graph, core::concatRegions(t, tileRegions), zeroCS, 0, "popops::zero");
}

void zero(Graph& graph, const Tensor& t, unsigned, ComputeSet zeroCS) {
  core::fillInComputeSet(graph, t, zeroCS, 0, "popops::zero");
}

void zero(Graph& graph, const Tensor& t, const std::vector<std::vector<Interval>>& mapping,
          ComputeSet zeroCS) {
  for (const std::vector<Interval>& regions : mapping) {
    if (!regions.empty()) zero(graph, t, regions, 0, zeroCS);
  }
}

void zero(Graph& graph, const Tensor& t, Sequence& prog, const DebugContext& debugContext) {
  prog.add(core::fillOp(graph, t, 0, debugContext, "popops::zero"));
}

}  // namespace popops
