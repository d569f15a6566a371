#include "popops/Loop.hpp"

#include "popops/ElementWise.hpp"
#include "popops/Fill.hpp"
#include "poputil/call.h"

namespace popops {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Program;
using poplar::program::Repeat;
using poplar::program::RepeatWhileTrue;
using poplar::program::Sequence;
using poputil::Call;

Sequence countedLoop(Graph& graph, size_t begin, size_t end, size_t step,
                     const CountedLoopBodyType& body, const DebugContext& debugContext) {
  const Call call("popops::countedLoop", debugContext);
  call.Require(step > 0, "the step is 0.");
  call.Require(begin <= end, "the loop begins at " + std::to_string(begin) + ", after its end " +
                                 std::to_string(end) + ".");
  const Tensor index = graph.addVariable(poplar::UNSIGNED_INT, {1}, debugContext);
  graph.setTileMapping(index, 0);
  Sequence program(debugContext);
  fill(graph, index, program, static_cast<unsigned>(begin), debugContext);
  Sequence iteration(debugContext);
  iteration.add(body(index));
  addInPlace(graph, index, static_cast<unsigned>(step), iteration, debugContext);
  const size_t count = (end - begin + step - 1) / step;
  program.add(Repeat(static_cast<unsigned>(count), iteration, debugContext));
  return program;
}

Sequence countedLoop(Graph& graph, size_t count, const CountedLoopBodyType& body,
                     const DebugContext& debugContext) {
  return countedLoop(graph, 0, count, 1, body, debugContext);
}

namespace {

void CheckCounter(const Tensor& count, const Tensor& limit, const Call& call) {
  const poplar::Type type = count.elementType();
  call.Require(
      type == poplar::INT || type == poplar::UNSIGNED_INT,
      "the counter has to be of int or unsigned int, not of " + poputil::TextOf(type) + ".");
  call.RequireType("the limit", limit, type);
  call.Require(count.numElements() == 1 && limit.numElements() == 1,
               "the counter and its limit have to be one element.");
}

Tensor IsBelowLimit(Graph& graph, const Tensor& count, const Tensor& limit, Sequence& prog,
                    const DebugContext& context) {
  return neq(graph, count.reshape({}), limit.reshape({}), prog, context);
}

}  // namespace

Tensor addForLoopCounterVertex(Graph& graph, const Tensor& count, const Tensor& countLimit,
                               int countStep, unsigned, Sequence& prog,
                               const DebugContext& debugContext) {
  CheckCounter(count, countLimit, Call("popops::addForLoopCounterVertex", debugContext));
  addInPlace(graph, count, countStep, prog, debugContext);
  return IsBelowLimit(graph, count, countLimit, prog, debugContext);
}

Sequence countedForLoop(Graph& graph, const Tensor& count, int initialCount,
                        const Tensor& countLimit, int countStep, const Program& body,
                        const DebugContext& debugContext) {
  CheckCounter(count, countLimit, Call("popops::countedForLoop", debugContext));
  Sequence program(debugContext), condition(debugContext), iteration(debugContext);
  fill(graph, count, program, initialCount, debugContext);
  const Tensor predicate = IsBelowLimit(graph, count, countLimit, condition, debugContext);
  iteration.add(body);
  addInPlace(graph, count, countStep, iteration, debugContext);
  program.add(RepeatWhileTrue(condition, predicate, iteration, debugContext));
  return program;
}

Sequence countedForLoop(Graph& graph, int initialCount, const Tensor& countLimit, int countStep,
                        const Program& body, const DebugContext& debugContext) {
  const Tensor count = graph.addVariable(countLimit.elementType(), {}, debugContext);
  graph.setTileMapping(count, 0);
  return countedForLoop(graph, count, initialCount, countLimit, countStep, body, debugContext);
}

}  // namespace popops
