#include "poputil/half_arrays.h"

#include "poplar/IeeeHalf.hpp"
#include "poplar/core/LibraryOp.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace poputil {
namespace {

constexpr size_t kGrain = 1 << 16;  // elements of a part for one core

void ToFloats(const uint16_t* halves, size_t count, float* floats) {
  for (size_t i = 0; i < count; ++i) floats[i] = poplar::IeeeHalf::fromBits(halves[i]);
}

void ToHalves(const float* floats, size_t count, uint16_t* halves) {
  for (size_t i = 0; i < count; ++i) halves[i] = poplar::IeeeHalf(floats[i]).bits();
}

#if defined(__x86_64__)

bool HasF16c() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}

__attribute__((target("avx,f16c"))) void ToFloatsF16c(const uint16_t* halves, size_t count,
                                                      float* floats) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i));
    _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(eight));
  }
  ToFloats(halves + i, count - i, floats + i);
}

__attribute__((target("avx,f16c"))) void ToHalvesF16c(const float* floats, size_t count,
                                                      uint16_t* halves) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm256_cvtps_ph(_mm256_loadu_ps(floats + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), eight);
  }
  ToHalves(floats + i, count - i, halves + i);
}

#else

bool HasF16c() { return false; }
void ToFloatsF16c(const uint16_t*, size_t, float*) {}
void ToHalvesF16c(const float*, size_t, uint16_t*) {}

#endif

}  // namespace

void FloatsOfHalves(const uint16_t* halves, size_t count, float* floats) {
  const auto convert = HasF16c() ? ToFloatsF16c : ToFloats;
  poplar::core::parallelFor(count, kGrain, [&](size_t begin, size_t end) {
    convert(halves + begin, end - begin, floats + begin);
  });
}

void HalvesOfFloats(const float* floats, size_t count, uint16_t* halves) {
  const auto convert = HasF16c() ? ToHalvesF16c : ToHalves;
  poplar::core::parallelFor(count, kGrain, [&](size_t begin, size_t end) {
    convert(floats + begin, end - begin, halves + begin);
  });
}

}  // namespace poputil
