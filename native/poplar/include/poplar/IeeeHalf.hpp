// Half-precision numbers on the host.
#ifndef poplar_IeeeHalf_hpp
#define poplar_IeeeHalf_hpp

#include <cstdint>
#include <ostream>

namespace poplar {

/// A binary16 number of IEEE 754. Converts to and from float, rounding to nearest even.
class IeeeHalf {
 public:
  IeeeHalf() : bits_(0) {}
  IeeeHalf(float value);
  operator float() const;

  static IeeeHalf fromBits(std::uint16_t bits) {
    IeeeHalf half;
    half.bits_ = bits;
    return half;
  }
  std::uint16_t bits() const { return bits_; }
  bool isNaN() const { return (bits_ & 0x7fffu) > 0x7c00u; }
  bool isInf() const { return (bits_ & 0x7fffu) == 0x7c00u; }

 private:
  std::uint16_t bits_;
};

inline std::ostream &operator<<(std::ostream &os, IeeeHalf half) {
  return os << static_cast<float>(half);
}

}  // namespace poplar

#endif  // poplar_IeeeHalf_hpp
