// Shape and type of a tensor.
#ifndef popart_tensorinfo_hpp
#define popart_tensorinfo_hpp

#include <popart/datatype.hpp>
#include <popart/error.hpp>
#include <popart/names.hpp>

namespace popart {

/// Facts about a type of elements.
class DataTypeInfo {
 public:
  DataTypeInfo(DataType type, int nbytes, bool isFixedPoint, const std::string &name,
               const std::string &lcaseName)
      : type_(type),
        nbytes_(nbytes),
        isFixedPoint_(isFixedPoint),
        name_(name),
        lcaseName_(lcaseName) {}
  DataType type() const { return type_; }
  const int &nbytes() const { return nbytes_; }
  const std::string &name() const { return name_; }
  const std::string &lcasename() const { return lcaseName_; }
  bool isFixedPoint() const { return isFixedPoint_; }

 private:
  DataType type_;
  int nbytes_;
  bool isFixedPoint_;
  std::string name_, lcaseName_;
};

/// Facts about all types.
const std::map<DataType, DataTypeInfo> &getDataTypeInfoMap();

class TensorInfo {
 public:
  TensorInfo() : type_(DataType::UNDEFINED) {}
  TensorInfo(DataType type, const Shape &shape) : type_(type), shape_(shape) {}
  TensorInfo(DataType type, const Shape &shape, const Shape &metaShape)
      : type_(type), shape_(shape), metaShape_(metaShape) {}
  TensorInfo(std::string type, std::string shape);
  TensorInfo(std::string type, const Shape &shape);

  void set(DataType type);
  void set(DataType type, const Shape &shape);
  void set(DataType type, const Shape &shape, const Shape &metaShape);

  const Shape &shape() const { return shape_; }
  const Shape &metaShape() const { return metaShape_; }
  std::vector<size_t> shape_szt() const;
  Rank rank() const { return static_cast<Rank>(shape_.size()); }
  int64_t nelms() const;
  int64_t nbytes() const;
  int64_t dim(int i) const;
  std::vector<int> strides(const std::vector<long> &shape) const;

  DataType dataType() const;
  const std::string &data_type() const;
  const std::string &data_type_lcase() const;
  const DataTypeInfo *getDataTypeInfo() const;

  bool isSet() const { return type_ != DataType::UNDEFINED; }
  void append(std::ostream &os) const;
  bool operator==(const TensorInfo &other) const {
    return type_ == other.type_ && shape_ == other.shape_;
  }
  bool operator!=(const TensorInfo &other) const { return !(*this == other); }

 private:
  DataType type_;
  Shape shape_, metaShape_;
};

std::ostream &operator<<(std::ostream &os, const TensorInfo &info);

/// Whether a shape broadcasts to another by the rules of NumPy.
bool npBroadcastable(const std::vector<int64_t> &s0, const std::vector<int64_t> &s1);
/// The shape of an elementwise op of two shapes, by the rules of NumPy.
std::vector<int64_t> npOut(const std::vector<int64_t> &s0, const std::vector<int64_t> &s1,
                           const std::string &debugName = "");
TensorInfo npOut(const TensorInfo &i0, const TensorInfo &i1, bool checkDataType = true,
                 const std::string &debugName = "");
/// The axes along which `out` is summed so that it has the shape `in`, which was broadcast to it.
std::vector<int64_t> npReductionAxis(const std::vector<int64_t> &in,
                                     const std::vector<int64_t> &out);

/// The type that the device has for a type: 32 bits for 64, if those are cast.
DataType getCompatibleDataType(DataType type);

/// A shape without its dimensions of size 1.
template <typename T>
std::vector<T> squeeze(const std::vector<T> &shape) {
  std::vector<T> kept;
  for (T dim : shape) {
    if (dim != 1) kept.push_back(dim);
  }
  return kept;
}

/// A shape without some dimensions.
template <typename T>
std::vector<T> squeeze(const std::vector<T> &shape, const std::vector<T> &axes) {
  std::vector<T> kept;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<T>(i)) == axes.end()) {
      kept.push_back(shape[i]);
    }
  }
  return kept;
}

/// A shape with dimensions of size 1 at places of the result, in ascending order.
template <typename T>
std::vector<T> unsqueeze(const std::vector<T> &shape, const std::vector<T> &axes) {
  std::vector<T> result = shape;
  for (T axis : axes) result.insert(result.begin() + axis, T(1));
  return result;
}

}  // namespace popart

#endif  // popart_tensorinfo_hpp
