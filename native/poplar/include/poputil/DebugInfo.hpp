// What functions of libraries record of a call.
#ifndef poputil_DebugInfo_hpp
#define poputil_DebugInfo_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/ProfileValue.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>

#include <string>
#include <type_traits>
#include <vector>

namespace poputil {

/// A value for reports.
template <typename T>
typename std::enable_if<std::is_arithmetic<T>::value, poplar::ProfileValue>::type toProfileValue(
    const T &value) {
  return poplar::ProfileValue(value);
}
template <typename T>
typename std::enable_if<std::is_enum<T>::value, poplar::ProfileValue>::type toProfileValue(
    const T &value) {
  return poplar::ProfileValue(static_cast<int>(value));
}
inline poplar::ProfileValue toProfileValue(const std::string &value) {
  return poplar::ProfileValue(value);
}
inline poplar::ProfileValue toProfileValue(const char *value) {
  return poplar::ProfileValue(value);
}
poplar::ProfileValue toProfileValue(const poplar::Type &type);
poplar::ProfileValue toProfileValue(const poplar::Tensor &tensor);
poplar::ProfileValue toProfileValue(const poplar::ComputeSet &computeSet);
poplar::ProfileValue toProfileValue(const poplar::OptionFlags &options);
template <typename T>
poplar::ProfileValue toProfileValue(const std::vector<T> &values) {
  poplar::ProfileValue::Vector result;
  for (const T &value : values) result.push_back(toProfileValue(value));
  return poplar::ProfileValue(result);
}
template <typename T>
typename std::enable_if<!std::is_same<T, char>::value, poplar::ProfileValue>::type toProfileValue(
    const T *value) {
  return value == nullptr ? poplar::ProfileValue("<null>") : toProfileValue(*value);
}

/// An argument or a result with its name.
struct ArgType {
  ArgType(std::string name, poplar::ProfileValue value)
      : n(static_cast<std::string &&>(name)), pv(static_cast<poplar::ProfileValue &&>(value)) {}

  std::string n;
  poplar::ProfileValue pv;
};

/// What an operation records.
class OpDebugInfo : public poplar::DebugInfo {
 public:
  OpDebugInfo(const poplar::DebugContext &debugContext, std::string api);

  void add(std::string name, const std::vector<ArgType> &args);
  void add(std::string name, const poplar::ProfileValue &value);
};

/// What a function of PopLibs records: its name, arguments and results.
class PoplibsOpDebugInfo : public OpDebugInfo {
 public:
  PoplibsOpDebugInfo(const poplar::DebugContext &debugContext,
                     const std::vector<ArgType> &args = {},
                     const std::string &api = __builtin_FUNCTION());

  void addOutputs(const std::vector<ArgType> &outputs);
  /// The only result.
  void addOutput(const poplar::Tensor &output);
};

}  // namespace poputil

// Each argument with its name: `DI_ARGS(a, b)` for a parameter of several ArgTypes.
#define POPUTIL_DI_1(x) poputil::ArgType(#x, poputil::toProfileValue(x))
#define POPUTIL_DI_2(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_1(__VA_ARGS__)
#define POPUTIL_DI_3(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_2(__VA_ARGS__)
#define POPUTIL_DI_4(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_3(__VA_ARGS__)
#define POPUTIL_DI_5(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_4(__VA_ARGS__)
#define POPUTIL_DI_6(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_5(__VA_ARGS__)
#define POPUTIL_DI_7(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_6(__VA_ARGS__)
#define POPUTIL_DI_8(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_7(__VA_ARGS__)
#define POPUTIL_DI_9(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_8(__VA_ARGS__)
#define POPUTIL_DI_10(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_9(__VA_ARGS__)
#define POPUTIL_DI_11(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_10(__VA_ARGS__)
#define POPUTIL_DI_12(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_11(__VA_ARGS__)
#define POPUTIL_DI_13(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_12(__VA_ARGS__)
#define POPUTIL_DI_14(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_13(__VA_ARGS__)
#define POPUTIL_DI_15(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_14(__VA_ARGS__)
#define POPUTIL_DI_16(x, ...) POPUTIL_DI_1(x), POPUTIL_DI_15(__VA_ARGS__)
#define POPUTIL_DI_COUNT(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, N, \
                         ...)                                                                      \
  POPUTIL_DI_##N
#define POPUTIL_DI_SELECT(...) \
  POPUTIL_DI_COUNT(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, unused)
#define DI_ARGS(...) {POPUTIL_DI_SELECT(__VA_ARGS__)(__VA_ARGS__)}
#define DI_STR(x) #x

#endif  // poputil_DebugInfo_hpp
