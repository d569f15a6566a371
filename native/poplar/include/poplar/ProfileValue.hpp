// Values of profiles.
#ifndef poplar_ProfileValue_hpp
#define poplar_ProfileValue_hpp

#include <poplar/StringRef.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace poplar {

class OptionFlags;

/// A value as in JSON.
class ProfileValue {
 public:
  enum class Type { BOOL, NUMBER, STRING, VECTOR, MAP };
  using String = std::string;
  using Boolean = bool;
  using Number = double;
  using Vector = std::vector<ProfileValue>;
  using Map = std::map<std::string, ProfileValue>;

  ProfileValue() : type_(Type::BOOL), number_(0) {}
  ProfileValue(bool value) : type_(Type::BOOL), number_(value) {}
  ProfileValue(double value) : type_(Type::NUMBER), number_(value) {}
  ProfileValue(int value) : ProfileValue(static_cast<double>(value)) {}
  ProfileValue(unsigned value) : ProfileValue(static_cast<double>(value)) {}
  ProfileValue(long value) : ProfileValue(static_cast<double>(value)) {}
  ProfileValue(unsigned long value) : ProfileValue(static_cast<double>(value)) {}
  ProfileValue(long long value) : ProfileValue(static_cast<double>(value)) {}
  ProfileValue(unsigned long long value) : ProfileValue(static_cast<double>(value)) {}
  ProfileValue(const char *value) : type_(Type::STRING), number_(0), string_(value) {}
  ProfileValue(std::string value)
      : type_(Type::STRING), number_(0), string_(static_cast<std::string &&>(value)) {}
  ProfileValue(StringRef value) : ProfileValue(value.cloneAsString()) {}
  ProfileValue(Vector value);
  ProfileValue(Map value);

  Type type() const { return type_; }
  bool asBool() const { return number_ != 0; }
  std::int64_t asInt() const { return static_cast<std::int64_t>(number_); }
  std::uint64_t asUint() const { return static_cast<std::uint64_t>(number_); }
  double asDouble() const { return number_; }
  const std::string &asString() const { return string_; }
  const Vector &asVector() const;
  const Map &asMap() const;
  std::vector<std::uint64_t> toUintVector() const;
  std::size_t size() const;
  std::int64_t sumInt() const;
  std::uint64_t sumUint() const;
  double sumDouble() const;
  std::int64_t sum2DInt() const;
  std::uint64_t sum2DUint() const;
  /// Throws poplar_error for a key or index that is not there.
  const ProfileValue &operator[](StringRef key) const;
  const ProfileValue &operator[](const char *key) const { return (*this)[StringRef(key)]; }
  const ProfileValue &operator[](std::size_t index) const;
  const ProfileValue &operator[](int index) const {
    return (*this)[static_cast<std::size_t>(index)];
  }
  const ProfileValue *getOrNull(StringRef key) const;

 private:
  Type type_;
  double number_;
  std::string string_;
  std::shared_ptr<const Vector> vector_;
  std::shared_ptr<const Map> map_;
};

/// Options as a map of strings.
ProfileValue getAsProfileValue(const OptionFlags &flags);

}  // namespace poplar

#endif  // poplar_ProfileValue_hpp
