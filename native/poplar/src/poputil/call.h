// Checks of a call of a library's function, and their errors.
#ifndef TENSORFLOW_IPU_POPUTIL_CALL_H_
#define TENSORFLOW_IPU_POPUTIL_CALL_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "poplar/DebugContext.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Tensor.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/exceptions.hpp"

namespace poputil {

inline std::string TextOf(const poplar::Type& type) { return type.toString().cloneAsString(); }

inline std::string TextOf(const std::vector<size_t>& shape) {
  std::string text = "{";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "}";
}

// A function of a library with the place in the user's source that calls it.
class Call {
 public:
  Call(std::string function, const poplar::DebugContext& context)
      : function_(std::move(function)), context_(context) {}

  const poplar::DebugContext& context() const { return context_; }

  [[noreturn]] void Fail(const std::string& message) const { throw poplibs_error(Text(message)); }

  void Require(bool holds, const std::string& message) const {
    if (!holds) Fail(message);
  }

  void RequireType(const char* name, const poplar::Tensor& tensor, const poplar::Type& type) const {
    if (tensor.elementType() == type) return;
    Fail(std::string(name) + " has to be of " + TextOf(type) + ", not of " +
         TextOf(tensor.elementType()) + ".");
  }

  void RequireShape(const char* name, const poplar::Tensor& tensor,
                    const std::vector<size_t>& shape) const {
    if (tensor.shape() == shape) return;
    Fail(std::string(name) + " has to have the shape " + TextOf(shape) + ", not " +
         TextOf(tensor.shape()) + ".");
  }

  // The elements have to be distinct ones of variables.
  void RequireWriteable(const char* name, const poplar::Tensor& tensor) const {
    if (tensor.containsConstant()) {
      Fail(std::string(name) + " is a constant, which cannot be written.");
    }
    if (!tensor.isContiguous() && tensor.containsAliases()) {
      Fail(std::string(name) + " has an element more than once, so it cannot be written.");
    }
  }

  void CheckOptions(const poplar::OptionFlags& options,
                    std::initializer_list<const char*> known) const {
    for (const auto& option : options) {
      bool found = false;
      for (const char* name : known) found |= option.first == name;
      if (found) continue;
      std::string names;
      for (const char* name : known) names += (names.empty() ? "" : ", ") + std::string(name);
      throw poplar::invalid_option(Text("there is no option '" + option.first + "'; " +
                                        (names.empty() ? "it has none" : "options are " + names) +
                                        "."));
    }
  }

 private:
  std::string Text(const std::string& message) const {
    const poplar::SourceLocation& location = context_.location();
    std::string text;
    if (location.isValid()) {
      text = std::string(location.getFileName()) + ":" + std::to_string(location.getLineNumber()) +
             " ";
    }
    return text + function_ + ": " + message;
  }

  std::string function_;
  poplar::DebugContext context_;
};

}  // namespace poputil

#endif  // TENSORFLOW_IPU_POPUTIL_CALL_H_
