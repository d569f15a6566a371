// Log messages, with a `{}` for each value.
#ifndef popart_logging_hpp
#define popart_logging_hpp

#include <popart/detail/print.hpp>

namespace popart {
namespace logging {

enum class Level { Trace = 0, Debug = 1, Info = 2, Warn = 3, Err = 4, Critical = 5, Off = 6 };

enum class Module {
  popart,
  session,
  ir,
  devicex,
  transform,
  pattern,
  builder,
  op,
  opx,
  ces,
  python,
  none
};

/// Replaces each `{}` of a text by the next value; `{{` and `}}` are braces.
std::string formatStrings(const std::string &format, const std::vector<std::string> &values);

}  // namespace logging

namespace detail {

template <typename T>
std::string valueText(const T &value) {
  std::ostringstream text;
  text << std::boolalpha << value;
  return text.str();
}

}  // namespace detail

namespace logging {

template <typename... Args>
std::string format(const std::string &text, const Args &...values) {
  return formatStrings(text, std::vector<std::string>{popart::detail::valueText(values)...});
}

/// The elements of a range with a separator between them.
template <typename Iterator>
std::string join(Iterator begin, Iterator end, const std::string &separator) {
  std::ostringstream text;
  for (Iterator it = begin; it != end; ++it) {
    if (it != begin) text << separator;
    text << *it;
  }
  return text.str();
}

/// Whether messages of a level are written: `POPART_LOG_LEVEL` names the lowest that are.
bool shouldLog(Module module, Level level);
void write(Module module, Level level, const std::string &message);

inline void log(Module module, Level level, const std::string &message) {
  if (shouldLog(module, level)) write(module, level, message);
}
template <typename First, typename... Rest>
void log(Module module, Level level, const std::string &text, const First &first,
         const Rest &...rest) {
  if (shouldLog(module, level)) write(module, level, format(text, first, rest...));
}

#define POPART_LOGGING_FUNCTION(MODULE, NAME, LEVEL)     \
  template <typename... Args>                            \
  void NAME(const std::string &text, Args &&...values) { \
    log(Module::MODULE, Level::LEVEL, text, values...);  \
  }
#define POPART_LOGGING_FUNCTIONS(MODULE)        \
  POPART_LOGGING_FUNCTION(MODULE, trace, Trace) \
  POPART_LOGGING_FUNCTION(MODULE, debug, Debug) \
  POPART_LOGGING_FUNCTION(MODULE, info, Info)   \
  POPART_LOGGING_FUNCTION(MODULE, warn, Warn)   \
  POPART_LOGGING_FUNCTION(MODULE, err, Err)     \
  POPART_LOGGING_FUNCTION(MODULE, crit, Critical)
#define POPART_LOGGING_MODULE(MODULE) \
  namespace MODULE {                  \
  POPART_LOGGING_FUNCTIONS(MODULE)    \
  }

POPART_LOGGING_FUNCTIONS(popart)
POPART_LOGGING_MODULE(popart)
POPART_LOGGING_MODULE(session)
POPART_LOGGING_MODULE(ir)
POPART_LOGGING_MODULE(devicex)
POPART_LOGGING_MODULE(transform)
POPART_LOGGING_MODULE(pattern)
POPART_LOGGING_MODULE(builder)
POPART_LOGGING_MODULE(op)
POPART_LOGGING_MODULE(opx)
POPART_LOGGING_MODULE(ces)
POPART_LOGGING_MODULE(python)

#undef POPART_LOGGING_MODULE
#undef POPART_LOGGING_FUNCTIONS
#undef POPART_LOGGING_FUNCTION

}  // namespace logging
}  // namespace popart

#endif  // popart_logging_hpp
