// Steps over numbers of rows: histograms, runs of rows, and splines.
#include "poplar/core/LibraryOp.hpp"
#include "popops/GatherStatistics.hpp"
#include "popops/SequenceSlice.hpp"
#include "popops/SplineBasis.hpp"
#include "popops/SplineWeighting.hpp"
#include "popops/ops.h"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::core::KernelAliasing;
using poplar::program::Sequence;
using poputil::Call;
using poputil::TextOf;

namespace {

void AddHistogram(Graph& graph, const Tensor& input, const Tensor& output, bool update,
                  const Tensor& levels, bool absolute, Sequence& prog, const Call& call) {
  call.Require(levels.rank() == 1,
               "levels has to be of rank 1, not " + levels.shapeToString() + ".");
  call.Require(input.elementType().isFloatingPoint(),
               "the input has to be of float or half, not of " + TextOf(input.elementType()) + ".");
  call.RequireType("levels", levels, input.elementType());
  call.RequireShape("the output", output, {levels.numElements() + 1});
  call.RequireWriteable("the output", output);
  const std::string text = ParameterWriter().Add(update).Add(absolute).text();
  prog.add(poplar::core::libraryOp(graph, "popops::histogram", text, {input, levels, output},
                                   {output}, call.context(), KernelAliasing::SameTensor));
}

bool CountsInFloat(const OptionFlags& options, const Call& call) {
  call.CheckOptions(options, {"useFloatArithmetic"});
  const auto option = options.find("useFloatArithmetic");
  return option != options.end() && option->second == "true";
}

}  // namespace

Tensor histogram(Graph& graph, const Tensor& input, const Tensor& levels, bool absoluteOfInput,
                 Sequence& prog, const DebugContext& debugContext, const OptionFlags& options) {
  const Call call("popops::histogram", debugContext);
  const poplar::Type type = CountsInFloat(options, call) ? poplar::FLOAT : poplar::UNSIGNED_INT;
  const Tensor output = NewLinear(graph, type, {levels.numElements() + 1}, debugContext);
  AddHistogram(graph, input, output, false, levels, absoluteOfInput, prog, call);
  return output;
}

void histogram(Graph& graph, const Tensor& input, Tensor& output, bool updateOutput,
               const Tensor& levels, bool absoluteOfInput, Sequence& prog,
               const DebugContext& debugContext, const OptionFlags& options) {
  const Call call("popops::histogram", debugContext);
  CountsInFloat(options, call);
  AddHistogram(graph, input, output, updateOutput, levels, absoluteOfInput, prog, call);
}

void sequenceSlice(Graph& graph, const Tensor& tIn, const Tensor& tOut, const Tensor& tN,
                   const Tensor& tInOffset, const Tensor& tOutOffset, bool zeroUnused,
                   Sequence& prog, const DebugContext& debugContext) {
  const Call call("popops::sequenceSlice", debugContext);
  call.RequireType("tOut", tOut, tIn.elementType());
  call.RequireWriteable("tOut", tOut);
  call.Require(tIn.rank() > 0 && tOut.rank() == tIn.rank(),
               "tIn and tOut have the shapes " + tIn.shapeToString() + " and " +
                   tOut.shapeToString() + "; they have to be of one rank.");
  for (unsigned d = 1; d < tIn.rank(); ++d) {
    call.Require(tIn.dim(d) == tOut.dim(d),
                 "rows of " + tIn.shapeToString() + " and " + tOut.shapeToString() + " differ.");
  }
  for (const Tensor* numbers : {&tN, &tInOffset, &tOutOffset}) {
    call.RequireType("a tensor of numbers", *numbers, poplar::UNSIGNED_INT);
    call.RequireShape("a tensor of numbers", *numbers, tN.shape());
  }
  prog.add(poplar::core::libraryOp(
      graph, "popops::sequenceSlice", ParameterWriter().Add(zeroUnused).text(),
      {tIn, tN, tInOffset, tOutOffset, tOut}, {tOut}, debugContext, KernelAliasing::SameTensor));
}

void splineBasis(Graph& graph, const Tensor& pseudo, const Tensor& kernelSize,
                 const Tensor& isOpenSpline, const Tensor& basis, const Tensor& weightIndex,
                 unsigned degree, Sequence& prog, const DebugContext& debugContext) {
  const Call call("popops::splineBasis", debugContext);
  call.Require(degree >= 1 && degree <= 3,
               "the degree has to be 1, 2 or 3, not " + std::to_string(degree) + ".");
  call.Require(pseudo.rank() == 2, "pseudo has to be of rank 2.");
  call.RequireShape("kernelSize", kernelSize, {pseudo.dim(1)});
  call.RequireShape("isOpenSpline", isOpenSpline, {pseudo.dim(1)});
  size_t products = 1;
  for (size_t d = 0; d < pseudo.dim(1); ++d) products *= degree + 1;
  call.RequireShape("basis", basis, {pseudo.dim(0), products});
  call.RequireShape("weightIndex", weightIndex, {pseudo.dim(0), products});
  call.RequireType("basis", basis, pseudo.elementType());
  call.RequireWriteable("basis", basis);
  call.RequireWriteable("weightIndex", weightIndex);
  prog.add(poplar::core::libraryOp(
      graph, "popops::splineBasis", ParameterWriter().Add(degree).text(),
      {pseudo, kernelSize, isOpenSpline}, {basis, weightIndex}, debugContext));
}

Tensor splineWeighting(Graph& graph, const Tensor& input, const Tensor& weight, const Tensor& basis,
                       const Tensor& weightIndex, Sequence& prog,
                       const DebugContext& debugContext) {
  const Call call("popops::splineWeighting", debugContext);
  call.Require(input.rank() == 2 && weight.rank() == 3 && input.dim(1) == weight.dim(1),
               "input " + input.shapeToString() + " and weight " + weight.shapeToString() +
                   " have to be {E, In} and {K, In, Out}.");
  call.Require(basis.rank() == 2 && basis.dim(0) == input.dim(0),
               "basis " + basis.shapeToString() + " has to have a row for each edge.");
  call.RequireShape("weightIndex", weightIndex, basis.shape());
  const Tensor out =
      NewLinear(graph, input.elementType(), {input.dim(0), weight.dim(2)}, debugContext);
  prog.add(poplar::core::libraryOp(graph, "popops::splineWeighting", "",
                                   {input, weight, basis, weightIndex}, {out}, debugContext));
  return out;
}

}  // namespace popops
