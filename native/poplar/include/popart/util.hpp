// Small functions that operations share.
#ifndef popart_util_hpp
#define popart_util_hpp

#include <popart/detail/print.hpp>
#include <popart/names.hpp>
#include <popart/vendored/optional.hpp>

namespace popart {

template <typename X, typename Y>
std::vector<Y> vXtoY(const std::vector<X> &values) {
  return std::vector<Y>(values.begin(), values.end());
}
template <typename To, typename From>
std::vector<To> vector_cast(const std::vector<From> &values) {
  std::vector<To> result;
  for (const From &value : values) result.push_back(static_cast<To>(value));
  return result;
}

inline bool isAlmostEqual(double a, double b, double tolerance = 1e-8) {
  return std::fabs(a - b) <= tolerance;
}

template <typename T>
bool isOneOf(const T &value, const std::vector<T> &values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// Values to visit, each once.
template <typename T>
class SearchHelper {
 public:
  void push(T value) {
    if (seen_.insert(value).second) pending_.push_back(value);
  }
  T pop() {
    T value = pending_.back();
    pending_.pop_back();
    return value;
  }
  bool empty() const { return pending_.empty(); }

 private:
  std::vector<T> pending_;
  std::set<T> seen_;
};

/// The value of the variable `POPART_<name>` of the environment.
nonstd::optional<std::string> getPopartEnvVar(const std::string &name);

}  // namespace popart

#endif  // popart_util_hpp
