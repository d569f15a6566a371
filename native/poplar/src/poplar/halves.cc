#include "poplar/core/Halves.hpp"

#include "types.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace poplar::core {
namespace {

// Both convert whole vectors, and return the number of elements that they converted.
#ifdef __x86_64__
constexpr size_t kLanes = 8;

__attribute__((target("avx,f16c"))) size_t VectorsToFloats(const uint16_t* from, float* to,
                                                           size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

__attribute__((target("avx,f16c"))) size_t VectorsToHalves(const float* from, uint16_t* to,
                                                           size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  return i;
}

bool HasVectors() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}
#else
size_t VectorsToFloats(const uint16_t*, float*, size_t) { return 0; }
size_t VectorsToHalves(const float*, uint16_t*, size_t) { return 0; }
bool HasVectors() { return false; }
#endif

}  // namespace

void halvesToFloats(const uint16_t* from, float* to, size_t count) {
  size_t i = HasVectors() ? VectorsToFloats(from, to, count) : 0;
  for (; i < count; ++i) to[i] = FloatOf(from[i]);
}

void floatsToHalves(const float* from, uint16_t* to, size_t count) {
  size_t i = HasVectors() ? VectorsToHalves(from, to, count) : 0;
  for (; i < count; ++i) to[i] = HalfOf(from[i]);
}

}  // namespace poplar::core
