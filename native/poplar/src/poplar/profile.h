// Profiles: as values, as text and in files.
#ifndef TENSORFLOW_IPU_POPLAR_PROFILE_H_
#define TENSORFLOW_IPU_POPLAR_PROFILE_H_

#include <string>

#include "engine_data.h"
#include "executable_data.h"
#include "poplar/ProfileValue.hpp"

namespace poplar::core {

ProfileValue GraphProfileOf(const ExecutableData& code);
ProfileValue ExecutionProfileOf(const EngineData& engine);
// Both, and the versions, as they stand in a file.
ProfileValue WholeProfile(const ExecutableData& code, const EngineData* engine);

// Whether cycles are recorded: on a model always, on other devices by the options.
bool ExecutionIsProfiled(const ExecutableData& code);
// Whether the options ask for files.
bool WritesProfile(const OptionFlags& options);
// Writes profile.pop and debug.cbor to the directory of the options. Returns the path of the first.
std::string WriteProfile(const ExecutableData& code, const EngineData* engine);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_PROFILE_H_
