#include "types.h"

#include <cmath>
#include <cstring>
#include <string>

#include "poplar/IeeeHalf.hpp"
#include "poplar/Target.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

namespace core {
namespace {

struct Row {
  const char* text;
  size_t size;
  bool floating;
};

constexpr Row kRows[] = {
    {"none", 0, false},
    {"bool", 1, false},
    {"char", 1, false},
    {"signed char", 1, false},
    {"unsigned char", 1, false},
    {"short", 2, false},
    {"unsigned short", 2, false},
    {"int", 4, false},
    {"unsigned int", 4, false},
    {"long", 8, false},
    {"unsigned long", 8, false},
    {"long long", 8, false},
    {"unsigned long long", 8, false},
    {"half", 2, true},
    {"float", 4, true},
    {"double", 8, true},
    {"quarter", 1, false},
    {"quarter_metadata", 1, false},
};

// Types with an equal one on the host: all but halves.
#define FOR_HOST_TYPES(X)                  \
  X(kBool, bool)                           \
  X(kChar, signed char)                    \
  X(kSignedChar, signed char)              \
  X(kUnsignedChar, unsigned char)          \
  X(kQuarter, unsigned char)               \
  X(kQuarterMetadata, unsigned char)       \
  X(kShort, short)                         \
  X(kUnsignedShort, unsigned short)        \
  X(kInt, int)                             \
  X(kUnsignedInt, unsigned)                \
  X(kLong, long)                           \
  X(kUnsignedLong, unsigned long)          \
  X(kLongLong, long long)                  \
  X(kUnsignedLongLong, unsigned long long) \
  X(kFloat, float)                         \
  X(kDouble, double)

template <typename To>
To Element(Type from, const void* source, size_t i) {
#define CASE(ID, T) \
  case Id::ID:      \
    return static_cast<To>(static_cast<const T*>(source)[i]);
  switch (static_cast<Id>(from.id())) {
    FOR_HOST_TYPES(CASE)
    case Id::kHalf:
      return static_cast<To>(FloatOf(static_cast<const uint16_t*>(source)[i]));
    case Id::kNone:
      break;
  }
#undef CASE
  throw type_error("An element has no type.");
}

}  // namespace

size_t SizeOf(Type type) { return kRows[type.id()].size; }

Type TypeOfName(const char* name, size_t size) {
  std::string text = name;
  if (text == "_Float16" || text == "poplar::half") text = "half";
  if (text == "poplar::quarter") text = "quarter";
  if (text == "short int") text = "short";
  if (text == "short unsigned int" || text == "unsigned short int") text = "unsigned short";
  if (text == "long int" || text == "long long int") text = "long long";
  if (text == "long unsigned int" || text == "long long unsigned int") text = "unsigned long long";
  unsigned id = 0;
  for (const Row& row : kRows) {
    if (text == row.text) return Type(id);
    ++id;
  }
  // An enumeration.
  return size == 1 ? UNSIGNED_CHAR : size == 2 ? UNSIGNED_SHORT : size == 4 ? INT : LONGLONG;
}

// Both by the rules of IEEE 754, with integers only.
uint16_t HalfOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;   // not a number
  if (bits >= 0x477ff000) return sign | 0x7c00;  // rounds to 65,536 or more
  if (bits < 0x38800000) {                       // below the smallest normal half
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof bits);
    // The sum's last bits are those of the half, rounded to nearest even.
    const float sum = magnitude + 0.5f;
    std::memcpy(&bits, &sum, sizeof bits);
    return sign | static_cast<uint16_t>(bits - 0x3f000000);
  }
  const uint32_t odd = (bits >> 13) & 1;
  return sign | static_cast<uint16_t>((bits - 0x38000000 + 0xfff + odd) >> 13);
}

float FloatOf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  float result;
  if (exponent == 0) {
    result = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -result : result;
  }
  const uint32_t bits = sign | ((exponent == 31 ? 0xff : exponent + 112) << 23) | (mantissa << 13);
  std::memcpy(&result, &bits, sizeof bits);
  return result;
}

void Convert(Type from, const void* source, Type to, void* target, size_t count) {
  if (from == to) {
    std::memcpy(target, source, count * SizeOf(to));
    return;
  }
#define CASE(ID, T)                                                                              \
  case Id::ID:                                                                                   \
    for (size_t i = 0; i < count; ++i) static_cast<T*>(target)[i] = Element<T>(from, source, i); \
    return;
  switch (static_cast<Id>(to.id())) {
    FOR_HOST_TYPES(CASE)
    case Id::kHalf:
      for (size_t i = 0; i < count; ++i) {
        static_cast<uint16_t*>(target)[i] = HalfOf(Element<float>(from, source, i));
      }
      return;
    case Id::kNone:
      break;
  }
#undef CASE
  throw type_error("A tensor has no type.");
}

}  // namespace core

using core::Id;

#define TYPE(NAME, ID) extern const Type NAME(static_cast<unsigned>(Id::ID));
TYPE(BOOL, kBool)
TYPE(CHAR, kChar)
TYPE(SIGNED_CHAR, kSignedChar)
TYPE(UNSIGNED_CHAR, kUnsignedChar)
TYPE(SHORT, kShort)
TYPE(SIGNED_SHORT, kShort)
TYPE(UNSIGNED_SHORT, kUnsignedShort)
TYPE(INT, kInt)
TYPE(SIGNED_INT, kInt)
TYPE(SIGNED, kInt)
TYPE(UNSIGNED_INT, kUnsignedInt)
TYPE(UNSIGNED, kUnsignedInt)
TYPE(LONG, kLong)
TYPE(SIGNED_LONG, kLong)
TYPE(UNSIGNED_LONG, kUnsignedLong)
TYPE(LONGLONG, kLongLong)
TYPE(SIGNED_LONGLONG, kLongLong)
TYPE(UNSIGNED_LONGLONG, kUnsignedLongLong)
TYPE(HALF, kHalf)
TYPE(FLOAT, kFloat)
TYPE(DOUBLE, kDouble)
TYPE(QUARTER, kQuarter)
TYPE(QUARTER_METADATA, kQuarterMetadata)
#undef TYPE

StringRef Type::toString() const { return core::kRows[id_].text; }
bool Type::isFloatingPoint() const { return core::kRows[id_].floating; }
bool Type::requiresMetadata() const { return *this == QUARTER; }
std::ostream& operator<<(std::ostream& os, const Type& type) { return os << type.toString(); }

IeeeHalf::IeeeHalf(float value) : bits_(core::HalfOf(value)) {}
IeeeHalf::operator float() const { return core::FloatOf(bits_); }

namespace {

constexpr uint16_t kLargestHalf = 0x7bff;

uint16_t DeviceHalf(float value) {
  const uint16_t half = core::HalfOf(value);
  const bool overflows = (half & 0x7fff) == 0x7c00 && !std::isinf(value);
  return overflows ? (half & 0x8000) | kLargestHalf : half;
}

}  // namespace

void copyFloatToDeviceHalf(const Target&, const float* from, void* to, size_t count) {
  for (size_t i = 0; i < count; ++i) static_cast<uint16_t*>(to)[i] = DeviceHalf(from[i]);
}
void copyDeviceHalfToFloat(const Target&, const void* from, float* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = core::FloatOf(static_cast<const uint16_t*>(from)[i]);
}
void copyDoubleToDeviceHalf(const Target&, const double* from, void* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    static_cast<uint16_t*>(to)[i] = DeviceHalf(static_cast<float>(from[i]));
  }
}
void copyDeviceHalfToDouble(const Target&, const void* from, double* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = core::FloatOf(static_cast<const uint16_t*>(from)[i]);
}

}  // namespace poplar
