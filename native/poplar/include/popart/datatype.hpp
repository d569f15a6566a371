// Types of elements.
#ifndef popart_datatype_hpp
#define popart_datatype_hpp

#include <popart/detail/print.hpp>
#include <popart/vendored/optional.hpp>

namespace popart {

enum class DataType {
  UINT8 = 0,
  INT8,
  FLOAT8_143,
  FLOAT8_152,
  UINT16,
  INT16,
  INT32,
  INT64,
  UINT32,
  UINT64,
  BOOL,
  FLOAT,
  FLOAT16,
  BFLOAT16,
  DOUBLE,
  COMPLEX64,
  COMPLEX128,
  STRING,
  UNDEFINED
};

using OptionalDataType = nonstd::optional<DataType>;

std::ostream &operator<<(std::ostream &os, const DataType &type);

/// The type that a name stands for: "FLOAT16".
DataType dataTypeFromString(const std::string &name);

namespace detail {

template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<uint8_t> {
  static constexpr DataType value = DataType::UINT8;
};
template <>
struct DataTypeOf<int8_t> {
  static constexpr DataType value = DataType::INT8;
};
template <>
struct DataTypeOf<uint16_t> {
  static constexpr DataType value = DataType::UINT16;
};
template <>
struct DataTypeOf<int16_t> {
  static constexpr DataType value = DataType::INT16;
};
template <>
struct DataTypeOf<uint32_t> {
  static constexpr DataType value = DataType::UINT32;
};
template <>
struct DataTypeOf<int32_t> {
  static constexpr DataType value = DataType::INT32;
};
template <>
struct DataTypeOf<uint64_t> {
  static constexpr DataType value = DataType::UINT64;
};
template <>
struct DataTypeOf<int64_t> {
  static constexpr DataType value = DataType::INT64;
};
template <>
struct DataTypeOf<bool> {
  static constexpr DataType value = DataType::BOOL;
};
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::FLOAT;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::DOUBLE;
};

}  // namespace detail

template <typename T>
DataType getDataType() {
  return detail::DataTypeOf<T>::value;
}

}  // namespace popart

#endif  // popart_datatype_hpp
