// Seeds of the generators of tiles.
#ifndef poplar_RandomSeed_hpp
#define poplar_RandomSeed_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace poplar {

Tensor getHwSeeds(Graph &graph, program::Sequence &program, const DebugContext &debugContext = {});
void setHwSeeds(Graph &graph, const Tensor &seeds, program::Sequence &program,
                const DebugContext &debugContext = {});

}  // namespace poplar

#endif  // poplar_RandomSeed_hpp
