// A reference to text.
#ifndef poplar_StringRef_hpp
#define poplar_StringRef_hpp

#include <poplar/ArrayRef.hpp>

#include <cstring>
#include <ostream>
#include <string>

namespace poplar {

/// Text that somebody else owns.
class StringRef : public ArrayRef<char> {
 public:
  StringRef() {}
  StringRef(const std::string &text) : ArrayRef<char>(text.data(), text.size()) {}
  StringRef(const char *text) : ArrayRef<char>(text, std::strlen(text)) {}
  StringRef(const char *text, std::size_t size) : ArrayRef<char>(text, size) {}

  std::string cloneAsString() const { return std::string(data(), size()); }
  operator std::string() const { return cloneAsString(); }
};

inline bool operator==(StringRef a, StringRef b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}
inline bool operator!=(StringRef a, StringRef b) { return !(a == b); }
inline bool operator<(StringRef a, StringRef b) { return a.cloneAsString() < b.cloneAsString(); }
inline std::string operator+(StringRef a, StringRef b) {
  return a.cloneAsString() + b.cloneAsString();
}
inline std::ostream &operator<<(std::ostream &os, StringRef text) {
  return os.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace poplar

#endif  // poplar_StringRef_hpp
