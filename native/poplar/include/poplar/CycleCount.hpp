// Cycles of a program, as the cost model of the chip has them.
#ifndef poplar_CycleCount_hpp
#define poplar_CycleCount_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/SyncType.hpp>
#include <poplar/Tensor.hpp>

#include <vector>

namespace poplar {

/// Changes `prog` into a program that counts its cycles, which are never 0. Returns UNSIGNED_INT
/// {2} on the tile: the low word, then the high one.
Tensor cycleCount(Graph &graph, program::Sequence &prog, unsigned tile, SyncType syncType,
                  const DebugContext &debugContext = {});
Tensor cycleCount(Graph &graph, program::Sequence &prog, unsigned tile,
                  const DebugContext &debugContext = {});

/// Adds a step to `prog` that stores the cycles since the engine was loaded, in the same form.
Tensor cycleStamp(Graph &graph, program::Sequence &prog, unsigned tile, SyncType syncType,
                  const DebugContext &debugContext = {});
Tensor cycleStamp(Graph &graph, program::Sequence &prog, unsigned tile,
                  const DebugContext &debugContext = {});
std::vector<Tensor> cycleStamp(Graph &graph, program::Sequence &prog,
                               const std::vector<unsigned> &tiles, SyncType syncType,
                               const DebugContext &debugContext = {});
std::vector<Tensor> cycleStamp(Graph &graph, program::Sequence &prog,
                               const std::vector<unsigned> &tiles,
                               const DebugContext &debugContext = {});

}  // namespace poplar

#endif  // poplar_CycleCount_hpp
