#include "popart/tensorinfo.hpp"

#include <map>
#include <string>
#include <vector>

namespace popart {

const std::map<DataType, DataTypeInfo>& getDataTypeInfoMap() {
  static const std::map<DataType, DataTypeInfo> types = [] {
    struct Row {
      DataType type;
      int bytes;
      bool integer;
      const char *name, *lower;
    };
    const Row rows[] = {
        {DataType::UINT8, 1, true, "UINT8", "uint8"},
        {DataType::INT8, 1, true, "INT8", "int8"},
        {DataType::FLOAT8_143, 1, false, "FLOAT8_143", "float8_143"},
        {DataType::FLOAT8_152, 1, false, "FLOAT8_152", "float8_152"},
        {DataType::UINT16, 2, true, "UINT16", "uint16"},
        {DataType::INT16, 2, true, "INT16", "int16"},
        {DataType::INT32, 4, true, "INT32", "int32"},
        {DataType::INT64, 8, true, "INT64", "int64"},
        {DataType::UINT32, 4, true, "UINT32", "uint32"},
        {DataType::UINT64, 8, true, "UINT64", "uint64"},
        {DataType::BOOL, 1, true, "BOOL", "bool"},
        {DataType::FLOAT, 4, false, "FLOAT", "float32"},
        {DataType::FLOAT16, 2, false, "FLOAT16", "float16"},
        {DataType::BFLOAT16, 2, false, "BFLOAT16", "bfloat16"},
        {DataType::DOUBLE, 8, false, "DOUBLE", "float64"},
        {DataType::COMPLEX64, 8, false, "COMPLEX64", "complex64"},
        {DataType::COMPLEX128, 16, false, "COMPLEX128", "complex128"},
        {DataType::STRING, -1, false, "STRING", "string"},
        {DataType::UNDEFINED, -1, false, "UNDEFINED", "undefined"},
    };
    std::map<DataType, DataTypeInfo> made;
    for (const Row& row : rows) {
      made.emplace(row.type, DataTypeInfo(row.type, row.bytes, row.integer, row.name, row.lower));
    }
    return made;
  }();
  return types;
}

namespace {

const DataTypeInfo& InfoOf(DataType type) { return getDataTypeInfoMap().at(type); }

// "(2, 3)" and "2,3" are shapes.
Shape ParseShape(const std::string& text) {
  Shape shape;
  std::string digits;
  for (const char c : text + ",") {
    if (c >= '0' && c <= '9') {
      digits += c;
    } else if (!digits.empty()) {
      shape.push_back(std::stoll(digits));
      digits.clear();
    }
  }
  return shape;
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const DataType& type) {
  return os << InfoOf(type).name();
}

DataType dataTypeFromString(const std::string& name) {
  for (const auto& row : getDataTypeInfoMap()) {
    if (row.first != DataType::UNDEFINED && row.second.name() == name) return row.first;
  }
  throw error("There is no ONNX type {}: no ONNX type has this name. An example: \"FLOAT16\"",
              name);
}

DataType getCompatibleDataType(DataType type) {
  switch (type) {
    case DataType::INT64:
      return DataType::INT32;
    case DataType::UINT64:
      return DataType::UINT32;
    case DataType::DOUBLE:
      return DataType::FLOAT;
    default:
      return type;
  }
}

TensorInfo::TensorInfo(std::string type, std::string shape)
    : TensorInfo(dataTypeFromString(type), ParseShape(shape)) {}
TensorInfo::TensorInfo(std::string type, const Shape& shape)
    : TensorInfo(dataTypeFromString(type), shape) {}

void TensorInfo::set(DataType type) { type_ = type; }
void TensorInfo::set(DataType type, const Shape& shape) { set(type, shape, Shape()); }
void TensorInfo::set(DataType type, const Shape& shape, const Shape& metaShape) {
  type_ = type;
  shape_ = shape;
  metaShape_ = metaShape;
}

std::vector<size_t> TensorInfo::shape_szt() const {
  return std::vector<size_t>(shape_.begin(), shape_.end());
}

int64_t TensorInfo::nelms() const {
  int64_t count = 1;
  for (const int64_t dim : shape_) count *= dim;
  return count;
}

int64_t TensorInfo::nbytes() const { return nelms() * getDataTypeInfo()->nbytes(); }

int64_t TensorInfo::dim(int i) const {
  if (i < 0 || i >= rank()) {
    throw error("Invalid input dimension {}, tensor of rank {}", i, rank());
  }
  return shape_[i];
}

std::vector<int> TensorInfo::strides(const std::vector<long>& shape) const {
  std::vector<int> strides(shape.size(), getDataTypeInfo()->nbytes());
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<int>(shape[i]);
  }
  return strides;
}

DataType TensorInfo::dataType() const {
  if (!isSet()) throw error("The type of a tensor was read before it was set.");
  return type_;
}

const DataTypeInfo* TensorInfo::getDataTypeInfo() const { return &InfoOf(dataType()); }
const std::string& TensorInfo::data_type() const { return InfoOf(dataType()).name(); }
const std::string& TensorInfo::data_type_lcase() const { return InfoOf(dataType()).lcasename(); }

void TensorInfo::append(std::ostream& os) const { os << InfoOf(type_).name() << ' ' << shape_; }

std::ostream& operator<<(std::ostream& os, const TensorInfo& info) {
  info.append(os);
  return os;
}

bool npBroadcastable(const std::vector<int64_t>& s0, const std::vector<int64_t>& s1) {
  for (size_t i = 1; i <= std::min(s0.size(), s1.size()); ++i) {
    const int64_t a = s0[s0.size() - i], b = s1[s1.size() - i];
    if (a != b && a != 1 && b != 1) return false;
  }
  return true;
}

std::vector<int64_t> npOut(const std::vector<int64_t>& s0, const std::vector<int64_t>& s1,
                           const std::string& debugName) {
  if (!npBroadcastable(s0, s1)) {
    throw error("{}np broadcasting failed, frames {} and {} are incompatible",
                debugName.empty() ? "" : "Op " + debugName + ": ", s0, s1);
  }
  std::vector<int64_t> shape = s0.size() < s1.size() ? s1 : s0;
  const std::vector<int64_t>& shorter = s0.size() < s1.size() ? s0 : s1;
  for (size_t i = 1; i <= shorter.size(); ++i) {
    int64_t& dim = shape[shape.size() - i];
    if (dim == 1) dim = shorter[shorter.size() - i];
  }
  return shape;
}

TensorInfo npOut(const TensorInfo& i0, const TensorInfo& i1, bool checkDataType,
                 const std::string& debugName) {
  if (checkDataType && i0.dataType() != i1.dataType()) {
    throw error("{}np broadcasting failed, incompatible types {} and {} (shapes {} and {})",
                debugName.empty() ? "" : "Op " + debugName + ": ", i0.dataType(), i1.dataType(),
                i0.shape(), i1.shape());
  }
  return TensorInfo(i0.dataType(), npOut(i0.shape(), i1.shape(), debugName));
}

std::vector<int64_t> npReductionAxis(const std::vector<int64_t>& in,
                                     const std::vector<int64_t>& out) {
  std::vector<int64_t> axes;
  const size_t added = out.size() - in.size();
  for (size_t i = 0; i < out.size(); ++i) {
    if (i < added || (in[i - added] == 1 && out[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

}  // namespace popart
