// A reference to elements that stand one after the other in memory.
#ifndef poplar_ArrayRef_hpp
#define poplar_ArrayRef_hpp

#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace gccs {

/// Elements of an array that somebody else owns.
template <typename T>
class ArrayRef {
 public:
  using value_type = T;
  using const_iterator = const T *;
  using iterator = const T *;

  ArrayRef() : data_(nullptr), size_(0) {}
  ArrayRef(const T *data, std::size_t size) : data_(data), size_(size) {}
  template <std::size_t N>
  ArrayRef(const T (&array)[N]) : data_(array), size_(N) {}
  template <std::size_t N>
  ArrayRef(const std::array<T, N> &array) : data_(array.data()), size_(N) {}
  template <typename Allocator>
  ArrayRef(const std::vector<T, Allocator> &vector) : data_(vector.data()), size_(vector.size()) {}
  // The list lives until the end of the full expression, as an argument does.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  ArrayRef(std::initializer_list<T> list) : data_(list.begin()), size_(list.size()) {}
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#pragma GCC diagnostic pop
#endif

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const T *data() const { return data_; }
  const T *begin() const { return data_; }
  const T *end() const { return data_ + size_; }
  const T *cbegin() const { return begin(); }
  const T *cend() const { return end(); }
  const T &front() const { return data_[0]; }
  const T &back() const { return data_[size_ - 1]; }
  const T &operator[](std::size_t index) const { return data_[index]; }
  std::vector<T> cloneAsVector() const { return std::vector<T>(begin(), end()); }

 private:
  const T *data_;
  std::size_t size_;
};

template <typename T>
bool operator==(const ArrayRef<T> &a, const ArrayRef<T> &b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i != a.size(); ++i) {
    if (!(a[i] == b[i])) return false;
  }
  return true;
}

template <typename T>
bool operator!=(const ArrayRef<T> &a, const ArrayRef<T> &b) {
  return !(a == b);
}

}  // namespace gccs

namespace poplar {

template <typename T>
using ArrayRef = gccs::ArrayRef<T>;

}  // namespace poplar

#endif  // poplar_ArrayRef_hpp
