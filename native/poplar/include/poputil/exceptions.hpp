// Errors of the libraries.
#ifndef poputil_exceptions_hpp
#define poputil_exceptions_hpp

#include <stdexcept>
#include <string>

namespace poputil {

/// An error of a call of a library. `type` is the name of the class.
struct poplibs_error : public std::runtime_error {
  std::string type;
  explicit poplibs_error(const std::string &message)
      : std::runtime_error(message), type("poplibs_error") {}
  explicit poplibs_error(const char *message)
      : std::runtime_error(message), type("poplibs_error") {}
};

}  // namespace poputil

#endif  // poputil_exceptions_hpp
