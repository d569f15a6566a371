// External variables of an engine: their memory belongs to the caller.
#ifndef TENSORFLOW_IPU_POPLAR_EXTERNAL_H_
#define TENSORFLOW_IPU_POPLAR_EXTERNAL_H_

#include <cstddef>

#include "poplar/Engine.hpp"

namespace poplar::core {

// What addresses of external variables are multiples of, and how many bytes behind their end
// vertices may read.
constexpr size_t kExternalAlignment = 64;
constexpr size_t kExternalPadding = 16;

// Loads an engine that runs on no device of the user's, as one replica of its program.
void LoadWithoutDevice(Engine* engine, unsigned replica = 0);

// The same as all replicas of its program.
void LoadAllWithoutDevice(Engine* engine);

// Sets the memory of an external variable of a loaded replica, by its position, from the next run
// on. Pointers of vertices are renewed if it differs from that before.
void BindExternal(Engine* engine, size_t replica, size_t external, void* address);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_EXTERNAL_H_
