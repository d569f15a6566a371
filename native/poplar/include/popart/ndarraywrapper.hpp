// Arrays of the caller.
#ifndef popart_ndarraywrapper_hpp
#define popart_ndarraywrapper_hpp

#include <popart/iarray.hpp>

namespace popart {

template <typename T>
class NDArrayWrapper : public IArray {
 public:
  NDArrayWrapper(T *data, const Shape &shape) : data_(data), info_(getDataType<T>(), shape) {}
  NDArrayWrapper(T *data, const TensorInfo &info) : data_(data), info_(info) {}
  void *data() override { return data_; }
  DataType dataType() const override { return info_.dataType(); }
  std::size_t rank() const override { return static_cast<std::size_t>(info_.rank()); }
  int64_t dim(size_t index) const override { return info_.dim(static_cast<int>(index)); }
  std::size_t nelms() const override { return static_cast<std::size_t>(info_.nelms()); }
  const Shape shape() const override { return info_.shape(); }
  T &operator[](size_t index) { return data_[index]; }

 private:
  T *data_;
  TensorInfo info_;
};

}  // namespace popart

#endif  // popart_ndarraywrapper_hpp
