// Options of functions as values.
#ifndef poputil_OptionParsing_hpp
#define poputil_OptionParsing_hpp

#include <poplar/StringRef.hpp>
#include <poplar/exceptions.hpp>

#include <functional>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace poplibs {

/// Sets a variable from the text of an option. Text that is no value throws invalid_option.
class OptionHandler {
 public:
  using Function = std::function<void(poplar::StringRef)>;

  explicit OptionHandler(Function function) : function_(std::move(function)) {}

  void parseValue(poplar::StringRef value) const { function_(value); }

  template <typename T>
  static OptionHandler createWithInteger(T &output) {
    static_assert(std::is_integral_v<T>, "the output is no integer");
    return OptionHandler([&output](poplar::StringRef value) { output = number<T>(value); });
  }
  template <typename T>
  static OptionHandler createWithDouble(T &output) {
    static_assert(std::is_floating_point_v<T>, "the output is no floating-point number");
    return OptionHandler([&output](poplar::StringRef value) { output = number<T>(value); });
  }
  static OptionHandler createWithBool(bool &output) {
    return createWithEnum(output, {{"true", true}, {"false", false}});
  }
  static OptionHandler createWithString(std::string &output) {
    return OptionHandler([&output](poplar::StringRef value) { output = value.cloneAsString(); });
  }
  template <typename T>
  static OptionHandler createWithEnum(
      T &output, std::initializer_list<std::pair<const std::string, T>> values) {
    const std::map<std::string, T> table(values);
    return OptionHandler([&output, table](poplar::StringRef value) {
      const auto found = table.find(value.cloneAsString());
      if (found != table.end()) {
        output = found->second;
        return;
      }
      std::string names;
      for (const auto &entry : table) names += (names.empty() ? "" : ", ") + entry.first;
      fail(value, "one of " + names);
    });
  }
  /// Numbers or words that are separated by commas.
  template <typename T>
  static OptionHandler createWithList(std::vector<T> &output) {
    return OptionHandler([&output](poplar::StringRef value) {
      std::vector<T> result;
      std::istringstream words(value.cloneAsString());
      for (std::string word; std::getline(words, word, ',');) {
        if constexpr (std::is_same_v<T, std::string>) {
          result.push_back(word);
        } else {
          result.push_back(number<T>(word));
        }
      }
      output = std::move(result);
    });
  }

 private:
  [[noreturn]] static void fail(poplar::StringRef value, const std::string &expected) {
    throw poplar::invalid_option("'" + value.cloneAsString() + "' is not " + expected + ".");
  }

  template <typename T>
  static T number(poplar::StringRef value) {
    std::istringstream text(value.cloneAsString());
    T result;
    char rest;
    if (!(text >> result) || text >> rest) {
      fail(value, std::is_integral_v<T> ? "an integer" : "a number");
    }
    return result;
  }

  Function function_;
};

/// The options of a function with their handlers.
class OptionSpec {
 public:
  OptionSpec(std::initializer_list<std::pair<const std::string, OptionHandler>> handlers)
      : handlers_(handlers) {}

  /// Throws invalid_option for an option that is not known, and for text that is no value of it.
  void parse(poplar::StringRef option, poplar::StringRef value, bool ignoreUnknown = false) const {
    const std::string name = option.cloneAsString();
    const auto handler = handlers_.find(name);
    if (handler == handlers_.end()) {
      if (ignoreUnknown) return;
      throw poplar::invalid_option("There is no option '" + name + "'.");
    }
    try {
      handler->second.parseValue(value);
    } catch (const poplar::invalid_option &error) {
      throw poplar::invalid_option("Option '" + name + "': " + error.what());
    }
  }

 private:
  std::map<std::string, OptionHandler> handlers_;
};

}  // namespace poplibs

#endif  // poputil_OptionParsing_hpp
