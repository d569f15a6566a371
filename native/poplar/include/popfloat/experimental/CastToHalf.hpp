// Conversions of single numbers between float and half.
#ifndef popfloat_experimental_CastToHalf_hpp
#define popfloat_experimental_CastToHalf_hpp

#include <cstdint>

namespace popfloat {
namespace experimental {

/// The number with the bits of a half.
float halfToSingle(std::uint16_t ihalf);
/// The bits of the nearest half. An overflow is infinity, or with `enNanoo` not a number.
std::uint16_t singleToHalf(float value, bool enNanoo = false);

}  // namespace experimental
}  // namespace popfloat

#endif  // popfloat_experimental_CastToHalf_hpp
