// A generator of random bits that is a function of a key and a counter (Philox 4x32 with 10 rounds:
// Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011), so that each element has its
// own.
#ifndef TENSORFLOW_IPU_POPRAND_PHILOX_H_
#define TENSORFLOW_IPU_POPRAND_PHILOX_H_

#include <array>
#include <cstdint>

namespace poprand {

// Four words of random bits for each number of a block.
class Philox {
 public:
  using Words = std::array<uint32_t, 4>;

  // `stream` tells calls with one seed apart.
  Philox(uint32_t seed0, uint32_t seed1, uint64_t stream)
      : seed0_(seed0), seed1_(seed1), stream_(stream) {}

  Words Block(uint64_t number) const {
    Words words = {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                   static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)};
    uint32_t key0 = seed0_, key1 = seed1_;
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53} * words[0], b = uint64_t{0xCD9E8D57} * words[2];
      words = {static_cast<uint32_t>(b >> 32) ^ words[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ words[3] ^ key1, static_cast<uint32_t>(a)};
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    return words;
  }

 private:
  const uint32_t seed0_, seed1_;
  const uint64_t stream_;
};

}  // namespace poprand

#endif  // TENSORFLOW_IPU_POPRAND_PHILOX_H_
