// A value of any type that can be copied.
#ifndef popart_vendored_any_hpp
#define popart_vendored_any_hpp

#include <popart/detail/stl.hpp>

#include <typeinfo>

namespace popart {

class any {
 public:
  any() {}
  template <typename T, typename = typename std::enable_if<
                            !std::is_same<typename std::decay<T>::type, any>::value>::type>
  any(T &&value) : held_(new Held<typename std::decay<T>::type>(std::forward<T>(value))) {}
  any(const any &other) : held_(other.held_ ? other.held_->clone() : nullptr) {}
  any(any &&other) = default;
  any &operator=(any other) {
    held_.swap(other.held_);
    return *this;
  }
  bool has_value() const { return held_ != nullptr; }
  const std::type_info &type() const { return held_ ? held_->type() : typeid(void); }

  template <typename T>
  const T *get() const {
    return held_ && held_->type() == typeid(T) ? static_cast<const T *>(held_->value()) : nullptr;
  }

 private:
  struct Base {
    virtual ~Base() {}
    virtual Base *clone() const = 0;
    virtual const std::type_info &type() const = 0;
    virtual const void *value() const = 0;
  };
  template <typename T>
  struct Held : Base {
    explicit Held(const T &value) : value_(value) {}
    explicit Held(T &&value) : value_(std::move(value)) {}
    Base *clone() const override { return new Held(value_); }
    const std::type_info &type() const override { return typeid(T); }
    const void *value() const override { return &value_; }
    T value_;
  };
  std::unique_ptr<Base> held_;
};

template <typename T>
T any_cast(const any &value) {
  const typename std::decay<T>::type *held = value.get<typename std::decay<T>::type>();
  if (held == nullptr) throw std::bad_cast();
  return *held;
}

}  // namespace popart

#endif  // popart_vendored_any_hpp
