// The generator behind device seeds.
#ifndef TENSORFLOW_IPU_ENGINE_RANDOM_BITS_H_
#define TENSORFLOW_IPU_ENGINE_RANDOM_BITS_H_

#include <cstdint>

namespace tensorflow_ipu {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014):
// the state is a counter, so a seed fixes the whole sequence, and hashing a number is the first
// output of a generator that starts there.
inline uint64_t NextRandomBits(uint64_t* state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// A hash of an ordered pair.
inline uint64_t CombineBits(uint64_t a, uint64_t b) {
  uint64_t state = NextRandomBits(&a) ^ b;
  return NextRandomBits(&state);
}

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_RANDOM_BITS_H_
