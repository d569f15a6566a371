// Neighboring ops of libraries that run together, block by block.
#ifndef TENSORFLOW_IPU_POPLAR_CHAINS_H_
#define TENSORFLOW_IPU_POPLAR_CHAINS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "executable_data.h"
#include "poplar/core/BlockKernel.hpp"

namespace poplar::core {

// Returns the length of the chain that begins at each instruction, 0 where there is none. A chain
// is two or more ops of libraries, all of which compute block by block, in which each value is used
// by the block that makes it. Nothing jumps into it.
//
// `kernels` are those of the code's ops of libraries; null for collectives.
std::vector<uint32_t> FindChains(const ExecutableData& code,
                                 const std::vector<std::unique_ptr<Kernel>>& kernels);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_CHAINS_H_
