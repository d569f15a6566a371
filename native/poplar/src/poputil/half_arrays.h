// Conversions between arrays of half and of float.
#ifndef TENSORFLOW_IPU_POPUTIL_HALF_ARRAYS_H_
#define TENSORFLOW_IPU_POPUTIL_HALF_ARRAYS_H_

#include <cstddef>
#include <cstdint>

namespace poputil {

void FloatsOfHalves(const uint16_t* halves, size_t count, float* floats);
// Rounds to nearest, ties to even.
void HalvesOfFloats(const float* floats, size_t count, uint16_t* halves);

}  // namespace poputil

#endif  // TENSORFLOW_IPU_POPUTIL_HALF_ARRAYS_H_
