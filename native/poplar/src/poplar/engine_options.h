// Options of engines.
#ifndef TENSORFLOW_IPU_POPLAR_ENGINE_OPTIONS_H_
#define TENSORFLOW_IPU_POPLAR_ENGINE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "poplar/OptionFlags.hpp"

namespace poplar::core {

// Options of a program and of POPLAR_ENGINE_OPTIONS, which override them. Throws invalid_option for
// a name that no engine has, and for other values than the option takes.
OptionFlags EngineOptions(const OptionFlags& given);

bool IsEngineOption(const std::string& name);

// Whether an option is set to a value.
bool OptionIs(const OptionFlags& options, const char* name, const char* value);
// Runs that the execution profile shows.
uint64_t RunsInProfile(const OptionFlags& options);
// Whether programs are compiled so that vertices that write outside of their fields are found:
// TENSORFLOW_IPU_POPLAR_CHECKED=1.
bool ChecksAreOn();
// Whether callbacks of streams may be called before their transfers.
bool PrefetchIsOn(const OptionFlags& options);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_ENGINE_OPTIONS_H_
