// Casts from and to quarters (8-bit floats), whose value is a number of their format times a power
// of two.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "poplar/core/LibraryOp.hpp"
#include "poputil/float_kernel.h"

namespace popops {
namespace {

using poputil::KernelCall;

constexpr size_t kGrain = 1 << 14;
constexpr uint8_t kNan = 0x80;  // a zero with a sign

// F143 and F152: a sign, bits of exponent, bits of mantissa.
struct Format {
  // Of the bits of metadata: see QuarterMetadata::getBinary.
  explicit Format(uint8_t metadata)
      : mantissa(metadata & 0x80 ? 3 : 2),
        least_exponent(metadata & 0x80 ? -7 : -15),
        scale((metadata & 0x3f) >= 0x20 ? (metadata & 0x3f) - 0x40 : metadata & 0x3f) {}

  int mantissa, least_exponent, scale;
};

// The nearest code, of two the even one. Numbers beyond the range become the largest.
uint8_t Encode(float value, const Format& format) {
  if (!std::isfinite(value)) return kNan;
  const double magnitude = std::ldexp(std::abs(static_cast<double>(value)), -format.scale);
  const int exponent = magnitude == 0 ? format.least_exponent
                                      : std::max(std::ilogb(magnitude), format.least_exponent);
  // In units of the last place a number is an integer. Numbers of the least exponent are their own
  // codes; each further exponent has as many again.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent));
  const double code = units + std::ldexp(exponent - format.least_exponent, format.mantissa);
  const uint8_t bits = static_cast<uint8_t>(std::min(code, 127.0));
  return std::signbit(value) && bits != 0 ? bits | 0x80 : bits;
}

float Decode(uint8_t code, const Format& format) {
  if (code == kNan) return std::nanf("");
  const int bits = code & 0x7f, exponent = bits >> format.mantissa;
  const int fraction = bits & ((1 << format.mantissa) - 1);
  const int units = exponent == 0 ? fraction : fraction + (1 << format.mantissa);
  const int power = std::max(exponent, 1) - 1 + format.least_exponent - format.mantissa;
  const float value = static_cast<float>(std::ldexp(units, power + format.scale));
  return code & 0x80 ? -value : value;
}

// Inputs: numbers, and metadata of one element.
void ToQuarter(const KernelCall& call) {
  const Format format(call.InAs<uint8_t>(1)[0]);
  poplar::core::parallelFor(call.OutSize(0), kGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      call.OutAs<uint8_t>(0)[i] = Encode(call.in(0)[i], format);
    }
  });
}

void FromQuarter(const KernelCall& call) {
  const Format format(call.InAs<uint8_t>(1)[0]);
  float values[256];
  for (int code = 0; code < 256; ++code) values[code] = Decode(static_cast<uint8_t>(code), format);
  poplar::core::parallelFor(call.OutSize(0), kGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) call.out(0)[i] = values[call.InAs<uint8_t>(0)[i]];
  });
}

const poputil::FloatKernelRegistration kToQuarter("popops::castToQuarter", ToQuarter);
const poputil::FloatKernelRegistration kFromQuarter("popops::castFromQuarter", FromQuarter);

}  // namespace
}  // namespace popops
