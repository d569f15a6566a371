// What an estimator of costs sees of a vertex.
#ifndef poplar_VertexIntrospector_hpp
#define poplar_VertexIntrospector_hpp

#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>

#include <cstddef>
#include <cstring>
#include <vector>

namespace poplar {

class Target;

namespace core {
struct GraphData;
struct Access;
}  // namespace core

/// The size and, for state, the value of a field.
class FieldData {
 public:
  /// Elements, or regions.
  std::size_t size() const { return sizes_.empty() ? size_ : sizes_.size(); }
  /// The size of one region.
  std::size_t getSizeAtIndex(std::size_t index) const { return sizes_[index]; }
  FieldData operator[](std::size_t index) const;
  template <typename T>
  T getInitialValue(const Target &) const {
    T value = T();
    if (bytes_.size() >= sizeof(T)) std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> getInitialValues(const Target &) const {
    std::vector<T> values(bytes_.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes_.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  friend struct core::Access;
  friend class VertexIntrospector;
  std::size_t size_ = 0;
  std::vector<std::size_t> sizes_;
  std::vector<unsigned char> bytes_;
};

/// A vertex, as an estimator of costs sees it.
class VertexIntrospector {
 public:
  FieldData getFieldInfo(StringRef name) const;

 private:
  friend struct core::Access;
  const core::GraphData *graph_ = nullptr;
  unsigned vertex_ = 0;
};

}  // namespace poplar

#endif  // poplar_VertexIntrospector_hpp
