// Loops that count.
#ifndef popops_Loop_hpp
#define popops_Loop_hpp

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <cstddef>
#include <functional>

namespace popops {

/// Makes the body of a loop for its index, UNSIGNED_INT of shape {1}.
using CountedLoopBodyType = std::function<poplar::program::Program(const poplar::Tensor &)>;

/// A loop with the index from `begin` by `step` up to, and without, `end`. `body` is called once.
poplar::program::Sequence countedLoop(poplar::Graph &graph, std::size_t begin, std::size_t end,
                                      std::size_t step, const CountedLoopBodyType &body,
                                      const poplar::DebugContext &debugContext = {});
/// The same from 0 by 1.
poplar::program::Sequence countedLoop(poplar::Graph &graph, std::size_t count,
                                      const CountedLoopBodyType &body,
                                      const poplar::DebugContext &debugContext = {});

/// A loop with a counter of the caller, of INT or UNSIGNED_INT, which counts up to a limit.
poplar::program::Sequence countedForLoop(poplar::Graph &graph, const poplar::Tensor &count,
                                         int initialCount, const poplar::Tensor &countLimit,
                                         int countStep, const poplar::program::Program &body,
                                         const poplar::DebugContext &debugContext = {});
/// The same with a counter of its own.
poplar::program::Sequence countedForLoop(poplar::Graph &graph, int initialCount,
                                         const poplar::Tensor &countLimit, int countStep,
                                         const poplar::program::Program &body,
                                         const poplar::DebugContext &debugContext = {});

/// Adds a step to a counter, and returns whether it is not at its limit: a predicate for
/// RepeatWhileTrue.
poplar::Tensor addForLoopCounterVertex(poplar::Graph &graph, const poplar::Tensor &count,
                                       const poplar::Tensor &countLimit, int countStep,
                                       unsigned tile, poplar::program::Sequence &prog,
                                       const poplar::DebugContext &debugContext);

}  // namespace popops

#endif  // popops_Loop_hpp
