// 8-bit floating-point numbers in codelets, as bits.
#ifndef poplar_QuarterFloat_hpp
#define poplar_QuarterFloat_hpp

namespace poplar {
struct quarter {
  unsigned char bits;
};
}  // namespace poplar

using quarter = poplar::quarter;

#endif  // poplar_QuarterFloat_hpp
