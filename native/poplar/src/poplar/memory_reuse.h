// Memory that variables share whose values are not needed at the same time.
#ifndef TENSORFLOW_IPU_POPLAR_MEMORY_REUSE_H_
#define TENSORFLOW_IPU_POPLAR_MEMORY_REUSE_H_

#include <cstdint>

#include "graph_data.h"
#include "poplar/Program.hpp"

namespace poplar::core {

// Places variables of a graph that has one program, and no host access, into one arena: those that
// each run writes before it reads them. So intermediate results stay in the cache.
//
// Returns the bytes of variables on the fullest tile at any time, without external ones.
uint64_t ShareMemory(GraphData* graph, const program::Program& program);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_MEMORY_REUSE_H_
