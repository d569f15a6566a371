// Errors of PopART.
#ifndef popart_error_hpp
#define popart_error_hpp

#include <popart/detail/print.hpp>
#include <popart/logging.hpp>

namespace popart {

/// Distinguishes the places that throw.
using ErrorUid = int;

/// The base of all errors: a text with a `{}` for each of the values that follow it.
class error : public std::runtime_error {
 public:
  template <typename... Args>
  explicit error(const char *format, const Args &...values)
      : std::runtime_error(logging::format(format, values...)) {}
  template <typename... Args>
  explicit error(const std::string &format, const Args &...values)
      : std::runtime_error(logging::format(format, values...)) {}
  template <typename... Args>
  explicit error(ErrorUid, const char *format, const Args &...values)
      : std::runtime_error(logging::format(format, values...)) {}
  template <typename... Args>
  explicit error(ErrorUid, const std::string &format, const Args &...values)
      : std::runtime_error(logging::format(format, values...)) {}
  error(const error &);
  ~error() override;
};

/// A condition inside PopART does not hold.
class internal_error : public error {
 public:
  using error::error;
  internal_error(const internal_error &);
  ~internal_error() override;
};

/// A run fails.
class runtime_error : public error {
 public:
  using error::error;
  runtime_error(const runtime_error &);
  ~runtime_error() override;
};

/// A program does not fit into memory.
class memory_allocation_err : public error {
 public:
  using error::error;
  memory_allocation_err(const memory_allocation_err &);
  ~memory_allocation_err() override;
};

namespace detail {

/// Throws the internal_error that says a function of the interface has no implementation.
[[noreturn]] void notImplemented(const char *function);

}  // namespace detail
}  // namespace popart

#endif  // popart_error_hpp
