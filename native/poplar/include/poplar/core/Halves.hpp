// Conversions of arrays of halves, for kernels of libraries.
#ifndef poplar_core_Halves_hpp
#define poplar_core_Halves_hpp

#include <cstddef>
#include <cstdint>

namespace poplar {
namespace core {

/// Converts binary16 numbers to floats, and back with rounding to nearest even.
void halvesToFloats(const std::uint16_t *from, float *to, std::size_t count);
void floatsToHalves(const float *from, std::uint16_t *to, std::size_t count);

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_Halves_hpp
