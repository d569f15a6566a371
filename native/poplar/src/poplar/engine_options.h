// Options of engines.
#ifndef TENSORFLOW_IPU_POPLAR_ENGINE_OPTIONS_H_
#define TENSORFLOW_IPU_POPLAR_ENGINE_OPTIONS_H_

#include "poplar/OptionFlags.hpp"

namespace poplar::core {

// Options of a program and of POPLAR_ENGINE_OPTIONS, which override them. Throws invalid_option for
// a name that no engine has. Only debug.allowOutOfMemory has an effect so far.
OptionFlags EngineOptions(const OptionFlags& given);

// Whether callbacks of streams may be called before their transfers.
bool PrefetchIsOn(const OptionFlags& options);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_ENGINE_OPTIONS_H_
