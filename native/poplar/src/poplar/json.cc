#include "poplar/core/Json.hpp"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "poplar/exceptions.hpp"

namespace poplar::core {
namespace {

void WriteString(const std::string& text, std::string* out) {
  *out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      *out += escape;
    } else {
      *out += c;
    }
  }
  *out += '"';
}

void WriteNumber(double number, std::string* out) {
  char text[32];
  constexpr double kMostInteger = 9007199254740992.0;
  const bool whole = std::floor(number) == number && std::fabs(number) < kMostInteger;
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", number);
  *out += std::isfinite(number) ? text : "null";
}

void Write(const ProfileValue& value, std::string* out) {
  const char* separator = "";
  switch (value.type()) {
    case ProfileValue::Type::BOOL:
      *out += value.asBool() ? "true" : "false";
      return;
    case ProfileValue::Type::NUMBER:
      return WriteNumber(value.asDouble(), out);
    case ProfileValue::Type::STRING:
      return WriteString(value.asString(), out);
    case ProfileValue::Type::VECTOR:
      *out += '[';
      for (const ProfileValue& item : value.asVector()) {
        *out += std::exchange(separator, ",");
        Write(item, out);
      }
      *out += ']';
      return;
    case ProfileValue::Type::MAP:
      *out += '{';
      for (const auto& [key, item] : value.asMap()) {
        *out += std::exchange(separator, ",");
        WriteString(key, out);
        *out += ':';
        Write(item, out);
      }
      *out += '}';
  }
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  ProfileValue ParseAll() {
    ProfileValue value = Parse();
    if (Peek() != '\0') Fail();
    return value;
  }

 private:
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool Accept(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }

  void Expect(char c) {
    if (!Accept(c)) Fail();
  }

  bool AcceptWord(const std::string& word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }

  ProfileValue Parse() {
    switch (Peek()) {
      case '{':
        return ParseMap();
      case '[':
        return ParseVector();
      case '"':
        return ParseString();
      default:
        break;
    }
    if (AcceptWord("true")) return true;
    if (AcceptWord("false") || AcceptWord("null")) return false;
    const char* const begin = text_.c_str() + at_;
    char* end = nullptr;
    const double number = std::strtod(begin, &end);
    if (end == begin) Fail();
    at_ += static_cast<size_t>(end - begin);
    return number;
  }

  ProfileValue ParseMap() {
    ProfileValue::Map map;
    Expect('{');
    if (Accept('}')) return map;
    do {
      const std::string key = ParseString();
      Expect(':');
      map[key] = Parse();
    } while (Accept(','));
    Expect('}');
    return map;
  }

  ProfileValue ParseVector() {
    ProfileValue::Vector vector;
    Expect('[');
    if (Accept(']')) return vector;
    do {
      vector.push_back(Parse());
    } while (Accept(','));
    Expect(']');
    return vector;
  }

  std::string ParseString() {
    Expect('"');
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        result += text_[at_++];
      } else {
        ParseEscape(&result);
      }
    }
    if (at_ >= text_.size()) Fail();
    ++at_;
    return result;
  }

  void ParseEscape(std::string* result) {
    ++at_;
    if (at_ >= text_.size()) Fail();
    const char c = text_[at_++];
    if (c == 'u') {
      const unsigned long code = std::strtoul(text_.substr(at_, 4).c_str(), nullptr, 16);
      at_ += 4;
      if (code < 0x80) {
        *result += static_cast<char>(code);
      } else if (code < 0x800) {
        *result += static_cast<char>(0xc0 | code >> 6);
        *result += static_cast<char>(0x80 | (code & 0x3f));
      } else {
        *result += static_cast<char>(0xe0 | code >> 12);
        *result += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        *result += static_cast<char>(0x80 | (code & 0x3f));
      }
      return;
    }
    *result += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == 'b' ? '\b' : c;
  }

  [[noreturn]] void Fail() const {
    throw parse_error("The text is no JSON, at character " + std::to_string(at_) + ".");
  }

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

std::string toJson(const ProfileValue& value) {
  std::string text;
  Write(value, &text);
  return text;
}

ProfileValue parseJson(const std::string& text) { return Parser(text).ParseAll(); }

}  // namespace poplar::core
