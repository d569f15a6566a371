// Whether the processor converts eight elements at a time between float16 and float32.
//
// Only what x86-64 has for it is written down (AVX2 with F16C). Kernels elsewhere convert one
// element after the other, to the same bits.
#ifndef TENSORFLOW_IPU_KERNELS_HALF_VECTORS_H_
#define TENSORFLOW_IPU_KERNELS_HALF_VECTORS_H_

#if defined(__x86_64__)
#include <immintrin.h>
#define TFIPU_HALF_VECTORS 1

namespace tensorflow_ipu {

inline bool HasHalfVectors() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
}

}  // namespace tensorflow_ipu
#endif

#endif  // TENSORFLOW_IPU_KERNELS_HALF_VECTORS_H_
