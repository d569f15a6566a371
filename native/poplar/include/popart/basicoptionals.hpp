// Numbers that may not be set.
#ifndef popart_basicoptionals_hpp
#define popart_basicoptionals_hpp

#include <popart/error.hpp>
#include <popart/names.hpp>

namespace popart {

/// A value or none. `V` tells apart optionals of one type.
template <typename T, uint32_t V = 0>
class BasicOptional {
 public:
  BasicOptional() : isSet_(false), value_() {}
  BasicOptional(T value) : isSet_(true), value_(value) {}
  BasicOptional &operator=(const T &value) {
    isSet_ = true;
    value_ = value;
    return *this;
  }

  const T &operator*() const {
    check();
    return value_;
  }
  T &operator*() {
    check();
    return value_;
  }
  explicit operator bool() const { return isSet_; }
  void reset() { isSet_ = false; }

 private:
  void check() const {
    if (!isSet_) throw error("A BasicOptional that has no value was read. Check it with bool().");
  }
  bool isSet_;
  T value_;
};

template <typename T, uint32_t V>
bool operator==(const BasicOptional<T, V> &a, const BasicOptional<T, V> &b) {
  return static_cast<bool>(a) == static_cast<bool>(b) && (!a || *a == *b);
}
template <typename T, uint32_t V>
bool operator!=(const BasicOptional<T, V> &a, const BasicOptional<T, V> &b) {
  return !(a == b);
}
template <typename T, uint32_t V>
bool operator==(const BasicOptional<T, V> &a, const T &b) {
  return a && *a == b;
}
template <typename T, uint32_t V>
bool operator!=(const BasicOptional<T, V> &a, const T &b) {
  return !(a == b);
}
template <typename T, uint32_t V>
bool operator<(const BasicOptional<T, V> &a, const BasicOptional<T, V> &b) {
  return b && (!a || *a < *b);
}
template <typename T, uint32_t V>
std::ostream &operator<<(std::ostream &os, const BasicOptional<T, V> &value) {
  if (value) return os << *value;
  return os << "none";
}

using OptionalVGraphId = BasicOptional<VGraphId, 2>;
using OptionalPipelineStage = BasicOptional<PipelineStage, 3>;
using OptionalExecutionPhase = BasicOptional<ExecutionPhase, 5>;
using OptionalBatchSerializedPhase = BasicOptional<BatchSerializedPhase, 7>;

enum class StochasticRoundingMethod { DifferingSeeds = 1, IdenticalSeeds = 2 };
std::ostream &operator<<(std::ostream &os, const StochasticRoundingMethod &method);
using OptionalStochasticRoundingMethod = BasicOptional<StochasticRoundingMethod, 10>;

}  // namespace popart

#endif  // popart_basicoptionals_hpp
