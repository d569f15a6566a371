// Functions of the chip's compiler in codelets that run on the host.
#ifndef poplar_ipu_builtins_h
#define poplar_ipu_builtins_h

#include <poplar/VectorTypes.hpp>

#include <cmath>
#include <cstdint>
#include <ctime>

namespace poplar {
namespace codelets {

/// The tile of the vertex that runs on this thread.
inline thread_local unsigned currentTile = 0;

/// A generator of each thread (splitmix64).
inline std::uint64_t nextRandom() {
  static thread_local std::uint64_t state = 0x853c49e6748fea9bull;
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

inline float nextUniform() { return static_cast<float>(nextRandom() >> 40) * 0x1p-24f; }

inline float nextNormal() {
  const float radius = std::sqrt(-2 * std::log(1 - nextUniform()));
  return radius * std::cos(6.28318530718f * nextUniform());
}

inline std::uint64_t nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace codelets
}  // namespace poplar

/// Called by the engine before each vertex.
extern "C" __attribute__((used, visibility("default"))) inline void poplar_set_tile(unsigned tile) {
  poplar::codelets::currentTile = tile;
}

inline unsigned __builtin_ipu_get_tile_id() { return poplar::codelets::currentTile; }
// Workers run one after the other.
inline unsigned __builtin_ipu_get_worker_id() { return 0; }
inline unsigned __builtin_ipu_get_scount_l() {
  return static_cast<unsigned>(poplar::codelets::nanoseconds());
}
inline unsigned __builtin_ipu_get_scount_u() {
  return static_cast<unsigned>(poplar::codelets::nanoseconds() >> 32);
}

inline unsigned __builtin_ipu_urand32() {
  return static_cast<unsigned>(poplar::codelets::nextRandom() >> 32);
}
inline std::uint64_t __builtin_ipu_urand64() { return poplar::codelets::nextRandom(); }
// In [-0.5, 0.5).
inline float __builtin_ipu_urand_f32() { return poplar::codelets::nextUniform() - 0.5f; }
inline half __builtin_ipu_urand_f16() { return static_cast<half>(__builtin_ipu_urand_f32()); }
inline float2 __builtin_ipu_f32v2grand() {
  return float2{poplar::codelets::nextNormal(), poplar::codelets::nextNormal()};
}
inline half4 __builtin_ipu_f16v4grand() {
  half4 result;
  for (int i = 0; i < 4; ++i) result[i] = static_cast<half>(poplar::codelets::nextNormal());
  return result;
}

inline float __builtin_ipu_exp(float x) { return std::exp(x); }
inline float __builtin_ipu_exp2(float x) { return std::exp2(x); }
inline float __builtin_ipu_ln(float x) { return std::log(x); }
inline float __builtin_ipu_log2(float x) { return std::log2(x); }
inline float __builtin_ipu_tanh(float x) { return std::tanh(x); }
inline float __builtin_ipu_sigm(float x) { return 1 / (1 + std::exp(-x)); }
inline float __builtin_ipu_sqrt(float x) { return std::sqrt(x); }
inline float __builtin_ipu_oorx(float x) { return 1 / std::sqrt(x); }
inline float __builtin_ipu_max(float x, float y) { return std::fmax(x, y); }
inline float __builtin_ipu_min(float x, float y) { return std::fmin(x, y); }
inline float __builtin_ipu_f16tof32(half x) { return static_cast<float>(x); }
inline half __builtin_ipu_f32tof16(float x) { return static_cast<half>(x); }
inline int __builtin_ipu_isnan(float x) { return std::isnan(x); }
inline float __builtin_ipu_andc_f32(float x, float y) {
  std::uint32_t a, b;
  __builtin_memcpy(&a, &x, sizeof a);
  __builtin_memcpy(&b, &y, sizeof b);
  a &= ~b;
  __builtin_memcpy(&x, &a, sizeof x);
  return x;
}

#endif  // poplar_ipu_builtins_h
