// Metadata of quarters: their format and scale.
#ifndef poplar_Quarter_hpp
#define poplar_Quarter_hpp

#include <poplar/QuarterFloat.hpp>

#include <cstdint>

namespace poplar {

/// Bits of exponent and mantissa, and the power of two by which values are multiplied.
class QuarterMetadata {
 public:
  enum class Format { F143, F152 };

  QuarterMetadata() : QuarterMetadata(Format::F143, 0) {}
  QuarterMetadata(Format format, int scale)
      : format_(format), scale_(static_cast<std::int8_t>(scale)) {}

  Format getFormat() const { return format_; }
  std::int8_t getScale() const { return scale_; }
  /// The format in the highest bit, the scale in the others.
  std::uint8_t getBinary() const {
    return static_cast<std::uint8_t>((format_ == Format::F143 ? 0x80 : 0) | (scale_ & 0x3f));
  }

 private:
  Format format_;
  std::int8_t scale_;
};

}  // namespace poplar

#endif  // poplar_Quarter_hpp
