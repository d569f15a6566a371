// Elements of tensors as numbers.
#ifndef TENSORFLOW_IPU_POPOPS_ELEMENTS_H_
#define TENSORFLOW_IPU_POPOPS_ELEMENTS_H_

#include <cstdint>
#include <utility>

#include "poplar/IeeeHalf.hpp"
#include "popops/block_functions.h"

namespace popops {

// Calls `f` with a number of the host's type for elements.
template <typename F>
auto WithElement(Element element, F f) {
  switch (element) {
    case Element::kFloat:
      return f(float());
    case Element::kHalf:
      return f(poplar::IeeeHalf());
    case Element::kI8:
      return f(int8_t());
    case Element::kBool:
    case Element::kU8:
      return f(uint8_t());
    case Element::kI16:
      return f(int16_t());
    case Element::kU16:
      return f(uint16_t());
    case Element::kI32:
      return f(int32_t());
    case Element::kU32:
      return f(uint32_t());
    case Element::kI64:
      return f(int64_t());
    default:
      return f(uint64_t());
  }
}

// An element as a number of double precision.
inline double NumberAt(const void* data, Element element, size_t index = 0) {
  return WithElement(element, [&](auto zero) {
    return static_cast<double>(static_cast<const decltype(zero)*>(data)[index]);
  });
}

}  // namespace popops

#endif  // TENSORFLOW_IPU_POPOPS_ELEMENTS_H_
