// Types of elements on the device.
#ifndef poplar_Type_hpp
#define poplar_Type_hpp

#include <poplar/StringRef.hpp>
#include <poplar/TypeTraits.hpp>

#include <cstddef>
#include <ostream>
#include <string>

namespace poplar {

class IeeeHalf;

/// The type of the elements of a tensor.
class Type {
 public:
  Type() : id_(0) {}
  explicit constexpr Type(unsigned id) : id_(static_cast<unsigned char>(id)) {}

  StringRef toString() const;
  std::size_t hash() const { return id_; }
  bool isFloatingPoint() const;
  bool requiresMetadata() const;
  /// The number of the type in the library's table.
  unsigned id() const { return id_; }

  bool operator==(const Type &other) const { return id_ == other.id_; }
  bool operator!=(const Type &other) const { return id_ != other.id_; }
  bool operator<(const Type &other) const { return id_ < other.id_; }

 private:
  unsigned char id_;
};

std::ostream &operator<<(std::ostream &os, const Type &type);

extern const Type BOOL, CHAR, UNSIGNED_CHAR, SIGNED_CHAR, SHORT, SIGNED_SHORT, UNSIGNED_SHORT, INT,
    SIGNED_INT, SIGNED, UNSIGNED_INT, UNSIGNED, LONG, SIGNED_LONG, UNSIGNED_LONG, LONGLONG,
    SIGNED_LONGLONG, UNSIGNED_LONGLONG, HALF, FLOAT, DOUBLE, QUARTER, QUARTER_METADATA;

/// The type on the device that stands for a type of the host.
template <typename T>
struct equivalent_device_type {};

#define POPLAR_DECLARE_EQUIV_TYPE(T1, T2) \
  template <>                             \
  struct equivalent_device_type<T1> {     \
    const Type &value = T2;               \
  };

POPLAR_DECLARE_EQUIV_TYPE(bool, BOOL)
POPLAR_DECLARE_EQUIV_TYPE(char, CHAR)
POPLAR_DECLARE_EQUIV_TYPE(signed char, SIGNED_CHAR)
POPLAR_DECLARE_EQUIV_TYPE(unsigned char, UNSIGNED_CHAR)
POPLAR_DECLARE_EQUIV_TYPE(short, SHORT)
POPLAR_DECLARE_EQUIV_TYPE(unsigned short, UNSIGNED_SHORT)
POPLAR_DECLARE_EQUIV_TYPE(int, INT)
POPLAR_DECLARE_EQUIV_TYPE(unsigned int, UNSIGNED_INT)
POPLAR_DECLARE_EQUIV_TYPE(long, LONG)
POPLAR_DECLARE_EQUIV_TYPE(unsigned long, UNSIGNED_LONG)
POPLAR_DECLARE_EQUIV_TYPE(long long, LONGLONG)
POPLAR_DECLARE_EQUIV_TYPE(unsigned long long, UNSIGNED_LONGLONG)
POPLAR_DECLARE_EQUIV_TYPE(float, FLOAT)
POPLAR_DECLARE_EQUIV_TYPE(double, DOUBLE)
POPLAR_DECLARE_EQUIV_TYPE(IeeeHalf, HALF)

}  // namespace poplar

namespace std {
template <>
struct hash<poplar::Type> {
  size_t operator()(const poplar::Type &type) const { return type.hash(); }
};
}  // namespace std

#endif  // poplar_Type_hpp
