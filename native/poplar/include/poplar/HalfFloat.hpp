// Half-precision numbers in codelets.
#ifndef poplar_HalfFloat_hpp
#define poplar_HalfFloat_hpp

#ifndef __FLT16_MANT_DIG__
#error "Codelets with halves need a compiler with _Float16: g++ 12 or later, or clang++."
#endif

namespace poplar {
/// A binary16 number of IEEE 754. Each operation rounds.
using half = _Float16;
}  // namespace poplar

using half = poplar::half;

inline half operator""_h(long double value) { return static_cast<half>(value); }

#endif  // poplar_HalfFloat_hpp
