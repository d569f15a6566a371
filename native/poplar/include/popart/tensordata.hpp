// Values of tensors that are known on the host.
#ifndef popart_tensordata_hpp
#define popart_tensordata_hpp

#include <popart/tensorinfo.hpp>

namespace popart {

class TensorData {
 public:
  static TensorData fromCopyOf(const void *source, size_t size) {
    const char *bytes = static_cast<const char *>(source);
    return TensorData(std::vector<char>(bytes, bytes + size));
  }
  void *data() { return data_.data(); }
  const void *data() const { return data_.data(); }
  size_t size() const { return data_.size(); }
  template <typename T>
  std::vector<T> copyDataAs(int count) const {
    if (static_cast<size_t>(count) * sizeof(T) != data_.size()) {
      throw error("The data of {} bytes is not that of {} elements of {} bytes", data_.size(),
                  count, sizeof(T));
    }
    std::vector<T> values(count);
    std::memcpy(values.data(), data_.data(), data_.size());
    return values;
  }

 private:
  explicit TensorData(std::vector<char> data) : data_(std::move(data)) {}
  std::vector<char> data_;
};

}  // namespace popart

#endif  // popart_tensordata_hpp
