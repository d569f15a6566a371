// Converts arrays between types of the host and of the device.
#ifndef poplar_TypeConversion_hpp
#define poplar_TypeConversion_hpp

#include <poplar/ArrayRef.hpp>
#include <poplar/Type.hpp>

#include <cstddef>

namespace poplar {

namespace core {
void convert(const Type &from, const void *source, const Type &to, void *target, std::size_t count);
}  // namespace core

/// Elements of `source` as the device has them; halves are rounded once.
template <typename T>
void convertToDeviceType(const Type &type, gccs::ArrayRef<T> source, void *target) {
  core::convert(equivalent_device_type<T>().value, source.data(), type, target, source.size());
}

/// Fills `target` with elements of the device.
template <typename T>
void convertFromDeviceType(const Type &type, const void *source, gccs::ArrayRef<T> target) {
  core::convert(type, source, equivalent_device_type<T>().value, const_cast<T *>(target.data()),
                target.size());
}

}  // namespace poplar

#endif  // poplar_TypeConversion_hpp
