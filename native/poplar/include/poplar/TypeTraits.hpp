// Properties of types of the host.
#ifndef poplar_TypeTraits_hpp
#define poplar_TypeTraits_hpp

#include <cstddef>
#include <type_traits>

namespace poplar {

class IeeeHalf;

/// Size, alignment and kind of a type of the host.
struct TypeTraits {
  std::size_t size;
  std::size_t align;
  bool isSimple;
  bool isFloat;
  bool isSigned;

  bool isSimpleType() const { return isSimple; }

  template <typename T>
  static constexpr bool isSimpleType() {
    return std::is_arithmetic<T>::value || std::is_same<T, IeeeHalf>::value;
  }
  template <typename T>
  static constexpr bool requiresMetadata() {
    return false;
  }
  template <typename T>
  static TypeTraits make() {
    return {sizeof(T), alignof(T), isSimpleType<T>(), std::is_floating_point<T>::value,
            std::is_signed<T>::value};
  }
};

}  // namespace poplar

#endif  // poplar_TypeTraits_hpp
