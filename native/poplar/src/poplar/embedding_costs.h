// What an embedded operation takes on the chip.
#ifndef TENSORFLOW_IPU_POPLAR_EMBEDDING_COSTS_H_
#define TENSORFLOW_IPU_POPLAR_EMBEDDING_COSTS_H_

#include <cstdint>
#include <string>

#include "executable_data.h"

namespace poplar::core {

// Describes one run of the first program as JSON: cycles of its own vertices, copies and exchange;
// ops of libraries with their tensors, which the caller prices; bytes on the fullest tile.
// `temporary` are those of variables, besides inputs and outputs.
std::string CostsOf(const ExecutableData& code, uint64_t temporary);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_EMBEDDING_COSTS_H_
