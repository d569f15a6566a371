// Vectors of few elements in codelets.
#ifndef poplar_VectorTypes_hpp
#define poplar_VectorTypes_hpp

#include <poplar/HalfFloat.hpp>

#define POPLAR_VECTOR(T, NAME, N) typedef T NAME __attribute__((vector_size(sizeof(T) * N)));
POPLAR_VECTOR(half, half2, 2)
POPLAR_VECTOR(half, half4, 4)
POPLAR_VECTOR(half, half8, 8)
POPLAR_VECTOR(float, float2, 2)
POPLAR_VECTOR(float, float4, 4)
POPLAR_VECTOR(signed char, char2, 2)
POPLAR_VECTOR(signed char, char4, 4)
POPLAR_VECTOR(unsigned char, uchar2, 2)
POPLAR_VECTOR(unsigned char, uchar4, 4)
POPLAR_VECTOR(short, short2, 2)
POPLAR_VECTOR(short, short4, 4)
POPLAR_VECTOR(unsigned short, ushort2, 2)
POPLAR_VECTOR(unsigned short, ushort4, 4)
POPLAR_VECTOR(int, int2, 2)
POPLAR_VECTOR(int, int4, 4)
POPLAR_VECTOR(unsigned int, uint2, 2)
POPLAR_VECTOR(unsigned int, uint4, 4)
POPLAR_VECTOR(long long, long2, 2)
#undef POPLAR_VECTOR

#endif  // poplar_VectorTypes_hpp
