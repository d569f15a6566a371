// Half-open intervals.
#ifndef poplar_Interval_hpp
#define poplar_Interval_hpp

#include <cstddef>
#include <ostream>
#include <tuple>

namespace poplar {

/// The values from `begin()` up to but without `end()`.
template <typename T>
class GenericInterval {
 public:
  GenericInterval() : begin_(), end_() {}
  GenericInterval(T begin, T end) : begin_(begin), end_(end) {}

  const T &begin() const { return begin_; }
  const T &end() const { return end_; }
  T size() const { return end_ - begin_; }

 private:
  T begin_, end_;
};

template <typename T>
bool operator==(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return a.begin() == b.begin() && a.end() == b.end();
}
template <typename T>
bool operator!=(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return !(a == b);
}
template <typename T>
bool operator<(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return std::make_tuple(a.begin(), a.end()) < std::make_tuple(b.begin(), b.end());
}
template <typename T>
bool operator>(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return b < a;
}
template <typename T>
bool operator<=(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return !(b < a);
}
template <typename T>
bool operator>=(const GenericInterval<T> &a, const GenericInterval<T> &b) {
  return !(a < b);
}
template <typename T>
std::ostream &operator<<(std::ostream &os, const GenericInterval<T> &interval) {
  return os << "[" << interval.begin() << "," << interval.end() << ")";
}

using Interval = GenericInterval<std::size_t>;

}  // namespace poplar

#endif  // poplar_Interval_hpp
