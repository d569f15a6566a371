// Names of vertices that are instances of templates.
#ifndef poputil_VertexTemplates_hpp
#define poputil_VertexTemplates_hpp

#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>

#include <string>
#include <type_traits>

namespace poputil {

/// The text of an argument of a template. Specialized for enumerations of users.
template <typename T>
struct VertexTemplateToString {
  static std::string to_string(const T &value) { return std::to_string(value); }
};
template <>
struct VertexTemplateToString<poplar::StringRef> {
  static std::string to_string(const poplar::StringRef &value) { return value.cloneAsString(); }
};
template <>
struct VertexTemplateToString<poplar::Type> {
  static std::string to_string(const poplar::Type &type) { return type.toString(); }
};
template <>
struct VertexTemplateToString<bool> {
  static std::string to_string(const bool &value) { return value ? "true" : "false"; }
};
template <>
struct VertexTemplateToString<std::string> {
  static std::string to_string(const std::string &value) { return value; }
};
template <>
struct VertexTemplateToString<const char *> {
  static std::string to_string(const char *const &value) { return value; }
};

inline std::string templateVertexParams(bool first) { return first ? "" : ">"; }

template <typename T, typename... Rest>
std::string templateVertexParams(bool first, const T &value, const Rest &...rest) {
  return (first ? "<" : ",") +
         VertexTemplateToString<typename std::decay<T>::type>::to_string(value) +
         templateVertexParams(false, rest...);
}

/// The name of an instance: `templateVertex("V", FLOAT, true)` is `V<float,true>`.
template <typename... Args>
std::string templateVertex(const std::string &name, const Args &...args) {
  return name + templateVertexParams(true, args...);
}

}  // namespace poputil

#endif  // poputil_VertexTemplates_hpp
