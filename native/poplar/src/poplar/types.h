// The table of types.
#ifndef TENSORFLOW_IPU_POPLAR_TYPES_H_
#define TENSORFLOW_IPU_POPLAR_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "poplar/Type.hpp"

namespace poplar::core {

enum class Id : unsigned {
  kNone,
  kBool,
  kChar,
  kSignedChar,
  kUnsignedChar,
  kShort,
  kUnsignedShort,
  kInt,
  kUnsignedInt,
  kLong,
  kUnsignedLong,
  kLongLong,
  kUnsignedLongLong,
  kHalf,
  kFloat,
  kDouble,
  kQuarter,
  kQuarterMetadata,
};

// Bytes of an element.
size_t SizeOf(Type type);
// The type of a name of the host's compiler, or of `Type::toString`; kNone where there is none.
Type TypeOfName(const char* name, size_t size);

uint16_t HalfOf(float value);  // to nearest even
float FloatOf(uint16_t half);

// Converts elements as a C cast does; to halves with one rounding.
void Convert(Type from, const void* source, Type to, void* target, size_t count);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_TYPES_H_
