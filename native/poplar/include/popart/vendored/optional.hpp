// A value or none, in C++11.
#ifndef popart_vendored_optional_hpp
#define popart_vendored_optional_hpp

#include <popart/detail/stl.hpp>

namespace nonstd {

struct nullopt_t {
  struct Init {};
  explicit constexpr nullopt_t(Init) {}
};
static constexpr nullopt_t nullopt{nullopt_t::Init{}};

struct bad_optional_access : public std::logic_error {
  bad_optional_access() : std::logic_error("bad optional access") {}
};

template <typename T>
class optional {
 public:
  using value_type = T;
  optional() {}
  optional(nullopt_t) {}
  optional(const T &value) : value_(new T(value)) {}
  optional(T &&value) : value_(new T(std::move(value))) {}
  template <typename U, typename = typename std::enable_if<
                            std::is_convertible<U &&, T>::value &&
                            !std::is_same<typename std::decay<U>::type, optional>::value &&
                            !std::is_same<typename std::decay<U>::type, T>::value &&
                            !std::is_same<typename std::decay<U>::type, nullopt_t>::value>::type>
  optional(U &&value) : value_(new T(std::forward<U>(value))) {}
  optional(const optional &other) : value_(other.value_ ? new T(*other.value_) : nullptr) {}
  optional(optional &&other) = default;
  optional &operator=(optional other) {
    value_.swap(other.value_);
    return *this;
  }

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return value_.get(); }
  const T *operator->() const { return value_.get(); }
  T &value() {
    if (!value_) throw bad_optional_access();
    return *value_;
  }
  const T &value() const {
    if (!value_) throw bad_optional_access();
    return *value_;
  }
  template <typename U>
  T value_or(U &&other) const {
    return value_ ? *value_ : static_cast<T>(std::forward<U>(other));
  }
  void reset() { value_.reset(); }
  template <typename... Args>
  T &emplace(Args &&...args) {
    value_.reset(new T(std::forward<Args>(args)...));
    return *value_;
  }
  void swap(optional &other) { value_.swap(other.value_); }

 private:
  std::unique_ptr<T> value_;
};

template <typename T>
optional<typename std::decay<T>::type> make_optional(T &&value) {
  return optional<typename std::decay<T>::type>(std::forward<T>(value));
}

template <typename T>
bool operator==(const optional<T> &a, const optional<T> &b) {
  return a.has_value() == b.has_value() && (!a.has_value() || *a == *b);
}
template <typename T>
bool operator!=(const optional<T> &a, const optional<T> &b) {
  return !(a == b);
}
template <typename T>
bool operator<(const optional<T> &a, const optional<T> &b) {
  return b.has_value() && (!a.has_value() || *a < *b);
}
template <typename T>
bool operator==(const optional<T> &a, nullopt_t) {
  return !a.has_value();
}
template <typename T>
bool operator!=(const optional<T> &a, nullopt_t) {
  return a.has_value();
}

}  // namespace nonstd

#endif  // popart_vendored_optional_hpp
