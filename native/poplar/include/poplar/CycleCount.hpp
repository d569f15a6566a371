// Cycles that programs take.
#ifndef poplar_CycleCount_hpp
#define poplar_CycleCount_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/SyncType.hpp>
#include <poplar/Tensor.hpp>

namespace poplar {

/// Makes `program` one that counts its cycles on a tile, by the cost model.
///
/// Returns two elements of UNSIGNED_INT, the low word first.
Tensor cycleCount(Graph &graph, program::Sequence &program, unsigned tile, SyncType syncType,
                  const DebugContext &debugContext = {});
Tensor cycleCount(Graph &graph, program::Sequence &program, unsigned tile,
                  const DebugContext &debugContext = {});
/// The cycles since the engine was loaded.
Tensor cycleStamp(Graph &graph, program::Sequence &program, unsigned tile, SyncType syncType,
                  const DebugContext &debugContext = {});

}  // namespace poplar

#endif  // poplar_CycleCount_hpp
