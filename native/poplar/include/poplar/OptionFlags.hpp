// Options as pairs of strings.
#ifndef poplar_OptionFlags_hpp
#define poplar_OptionFlags_hpp

#include <poplar/StringRef.hpp>

#include <cstddef>
#include <initializer_list>
#include <map>
#include <ostream>
#include <string>
#include <utility>

namespace poplar {

class ProfileValue;

/// Options by name, in the order of their names.
class OptionFlags {
  using Map = std::map<std::string, std::string>;

 public:
  using OptionFlag = std::pair<const std::string, std::string>;
  using initializer_list = std::initializer_list<OptionFlag>;
  using iterator = Map::const_iterator;
  using const_iterator = Map::const_iterator;

  OptionFlags() {}
  OptionFlags(initializer_list flags) : flags_(flags) {}

  void set(StringRef option, StringRef value) {
    flags_[option.cloneAsString()] = value.cloneAsString();
  }
  void set(initializer_list flags) {
    for (const OptionFlag &flag : flags) flags_[flag.first] = flag.second;
  }
  /// Throws poplar_error for an option that is not set.
  const std::string &at(StringRef option) const;
  iterator find(StringRef option) const { return flags_.find(option.cloneAsString()); }
  iterator begin() const { return flags_.begin(); }
  iterator end() const { return flags_.end(); }
  std::size_t size() const { return flags_.size(); }
  void clear() { flags_.clear(); }

  friend bool operator==(const OptionFlags &a, const OptionFlags &b) {
    return a.flags_ == b.flags_;
  }
  friend bool operator!=(const OptionFlags &a, const OptionFlags &b) { return !(a == b); }
  friend bool operator<(const OptionFlags &a, const OptionFlags &b) { return a.flags_ < b.flags_; }

 private:
  Map flags_;
};

std::ostream &operator<<(std::ostream &os, const OptionFlags &flags);

/// Sets options from a flat JSON object of strings. Throws parse_error for other text.
void readJSON(StringRef text, OptionFlags &flags);
/// The same from an environment variable; one that is not set changes nothing.
void readJSONFromEnv(StringRef variable, OptionFlags &flags);

}  // namespace poplar

#endif  // poplar_OptionFlags_hpp
