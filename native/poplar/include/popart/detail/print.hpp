// Containers as text, for messages.
#ifndef popart_detail_print_hpp
#define popart_detail_print_hpp

#include <popart/detail/stl.hpp>

namespace popart {
namespace detail {

template <typename Iterator>
void printRange(std::ostream &os, Iterator begin, Iterator end);

}  // namespace detail

template <typename A, typename B>
std::ostream &operator<<(std::ostream &os, const std::pair<A, B> &pair);
template <typename T>
std::ostream &operator<<(std::ostream &os, const std::vector<T> &values);
template <typename T>
std::ostream &operator<<(std::ostream &os, const std::set<T> &values);
template <typename K, typename V>
std::ostream &operator<<(std::ostream &os, const std::map<K, V> &values);

template <typename A, typename B>
std::ostream &operator<<(std::ostream &os, const std::pair<A, B> &pair) {
  return os << '(' << pair.first << ", " << pair.second << ')';
}
template <typename T>
std::ostream &operator<<(std::ostream &os, const std::vector<T> &values) {
  detail::printRange(os << '[', values.begin(), values.end());
  return os << ']';
}
template <typename T>
std::ostream &operator<<(std::ostream &os, const std::set<T> &values) {
  detail::printRange(os << '{', values.begin(), values.end());
  return os << '}';
}
template <typename K, typename V>
std::ostream &operator<<(std::ostream &os, const std::map<K, V> &values) {
  detail::printRange(os << '{', values.begin(), values.end());
  return os << '}';
}

namespace detail {

template <typename Iterator>
void printRange(std::ostream &os, Iterator begin, Iterator end) {
  for (Iterator it = begin; it != end; ++it) {
    if (it != begin) os << ' ';
    os << *it;
  }
}

}  // namespace detail

// Operators of these namespaces would hide those above.
namespace popx {
using popart::operator<<;
}
namespace view {
using popart::operator<<;
}

}  // namespace popart

#endif  // popart_detail_print_hpp
