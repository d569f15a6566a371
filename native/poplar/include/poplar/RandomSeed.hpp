// The state of the generators of random numbers.
#ifndef poplar_RandomSeed_hpp
#define poplar_RandomSeed_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace poplar {

/// Copies the state: UNSIGNED_INT {tiles, workers, 4}.
Tensor getHwSeeds(Graph &graph, program::Sequence &prog, const DebugContext &debugContext = {});
/// Sets the state to what `getHwSeeds` returned.
void setHwSeeds(Graph &graph, const Tensor &hwSeeds, program::Sequence &prog,
                const DebugContext &debugContext = {});

}  // namespace poplar

#endif  // poplar_RandomSeed_hpp
