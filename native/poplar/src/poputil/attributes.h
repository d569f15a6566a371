// Attributes of an op of a library, as the text of its parameters.
#ifndef TENSORFLOW_IPU_POPUTIL_ATTRIBUTES_H_
#define TENSORFLOW_IPU_POPUTIL_ATTRIBUTES_H_

#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace poputil {

// Numbers, lists of numbers and words by name. The text is `name=value;`, lists have spaces.
class Attributes {
 public:
  Attributes() = default;
  explicit Attributes(const std::string& text) {
    size_t at = 0;
    while (at < text.size()) {
      const size_t middle = text.find('=', at), end = text.find(';', middle);
      values_[text.substr(at, middle - at)] = text.substr(middle + 1, end - middle - 1);
      at = end + 1;
    }
  }

  Attributes& Set(const std::string& name, const std::string& word) {
    values_[name] = word;
    return *this;
  }
  Attributes& Set(const std::string& name, const char* word) {
    return Set(name, std::string(word));
  }
  Attributes& Set(const std::string& name, bool value) { return Set(name, value ? "1" : "0"); }
  template <typename Number>
  Attributes& Set(const std::string& name, Number value) {
    return Set(name, Text(value));
  }
  template <typename Number>
  Attributes& Set(const std::string& name, const std::vector<Number>& values) {
    std::string text;
    for (const Number value : values) text += (text.empty() ? "" : " ") + Text(value);
    return Set(name, text);
  }
  Attributes& Set(const std::string& name, const std::vector<bool>& values) {
    return Set(name, std::vector<int>(values.begin(), values.end()));
  }

  std::string text() const {
    std::string result;
    for (const auto& [name, value] : values_) result += name + "=" + value + ";";
    return result;
  }

  const std::string& Word(const std::string& name) const { return values_.at(name); }
  int64_t Int(const std::string& name) const { return std::stoll(Word(name)); }
  size_t Size(const std::string& name) const { return static_cast<size_t>(Int(name)); }
  double Double(const std::string& name) const { return std::stod(Word(name)); }
  float Float(const std::string& name) const { return static_cast<float>(Double(name)); }
  bool Bool(const std::string& name) const { return Word(name) == "1"; }
  std::vector<size_t> Sizes(const std::string& name) const {
    std::istringstream stream(Word(name));
    std::vector<size_t> result;
    for (size_t value; stream >> value;) result.push_back(value);
    return result;
  }

 private:
  // A double has all of its bits in the text.
  static std::string Text(double value) {
    std::ostringstream stream;
    stream << std::hexfloat << value;
    return stream.str();
  }
  static std::string Text(float value) { return Text(static_cast<double>(value)); }
  template <typename Integer>
  static std::string Text(Integer value) {
    return std::to_string(value);
  }

  std::map<std::string, std::string> values_;
};

}  // namespace poputil

#endif  // TENSORFLOW_IPU_POPUTIL_ATTRIBUTES_H_
