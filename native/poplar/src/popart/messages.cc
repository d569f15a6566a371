// Errors and log messages.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "popart/error.hpp"
#include "popart/logging.hpp"
#include "popart/util.hpp"

namespace popart {

error::error(const error&) = default;
error::~error() = default;
internal_error::internal_error(const internal_error&) = default;
internal_error::~internal_error() = default;
runtime_error::runtime_error(const runtime_error&) = default;
runtime_error::~runtime_error() = default;
memory_allocation_err::memory_allocation_err(const memory_allocation_err&) = default;
memory_allocation_err::~memory_allocation_err() = default;

void detail::notImplemented(const char* function) {
  throw internal_error(
      "{} is declared so that programs compile, and not implemented. Leave out the call.",
      function);
}

nonstd::optional<std::string> getPopartEnvVar(const std::string& name) {
  const char* value = std::getenv(("POPART_" + name).c_str());
  if (value == nullptr) return nonstd::nullopt;
  return std::string(value);
}

namespace logging {
namespace {

[[noreturn]] void RefuseFormat(const std::string& format, const char* reason) {
  std::string message = "Popart exception format error ";
  throw std::runtime_error(message + reason + " : " + format);
}

constexpr const char* kLevels[] = {"TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF"};
constexpr const char* kModules[] = {"popart",  "session", "ir",  "devicex", "transform", "pattern",
                                    "builder", "op",      "opx", "ces",     "python",    "none"};

Level LowestLevel() {
  const char* wanted = std::getenv("POPART_LOG_LEVEL");
  for (int level = 0; wanted != nullptr && level < 7; ++level) {
    if (std::string(kLevels[level]) == wanted) return static_cast<Level>(level);
  }
  return Level::Warn;
}

}  // namespace

std::string formatStrings(const std::string& format, const std::vector<std::string>& values) {
  std::string text;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if (c != '{' && c != '}') {
      text += c;
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == c) {
      text += c;
      ++i;
      continue;
    }
    const size_t end = c == '{' ? format.find('}', i) : std::string::npos;
    if (end == std::string::npos) RefuseFormat(format, "unmatched brace");
    size_t position = next++;
    const std::string inside = format.substr(i + 1, end - i - 1);
    if (!inside.empty() && inside.find_first_not_of("0123456789") == std::string::npos) {
      position = std::stoul(inside);
    }
    if (position >= values.size()) RefuseFormat(format, "argument index out of range");
    text += values[position];
    i = end;
  }
  return text;
}

bool shouldLog(Module, Level level) {
  static const Level lowest = LowestLevel();
  return level >= lowest && level != Level::Off;
}

void write(Module module, Level level, const std::string& message) {
  std::cerr << "[popart:" << kModules[static_cast<int>(module)] << "] ["
            << kLevels[static_cast<int>(level)] << "] " << message << std::endl;
}

}  // namespace logging
}  // namespace popart
