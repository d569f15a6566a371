#include "poplar/OptionFlags.hpp"

#include <cctype>
#include <cstdlib>

#include "poplar/DebugContext.hpp"
#include "poplar/Engine.hpp"
#include "poplar/ProfileValue.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

const std::string& OptionFlags::at(StringRef option) const {
  const auto found = flags_.find(option.cloneAsString());
  if (found == flags_.end()) {
    throw poplar_error("The option '" + option.cloneAsString() + "' is not set.");
  }
  return found->second;
}

std::ostream& operator<<(std::ostream& os, const OptionFlags& flags) {
  os << "{";
  bool first = true;
  for (const auto& [name, value] : flags) {
    os << (first ? "" : ", ") << name << ": " << value;
    first = false;
  }
  return os << "}";
}

namespace {

// Reads a flat JSON object of strings.
class JsonReader {
 public:
  explicit JsonReader(std::string text) : text_(std::move(text)) {}

  void ReadObject(OptionFlags* flags) {
    Expect('{');
    if (Peek() == '}') {
      ++at_;
    } else {
      do {
        const std::string name = ReadString();
        Expect(':');
        flags->set(name, ReadValue());
      } while (Accept(','));
      Expect('}');
    }
    if (Peek() != '\0') Fail();
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

  std::string ReadString() {
    Expect('"');
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') ++at_;
      if (at_ < text_.size()) result += text_[at_++];
    }
    Expect('"');
    return result;
  }

  // Also a bare word or number, which stands for its text.
  std::string ReadValue() {
    if (Peek() == '"') return ReadString();
    std::string result;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+')) {
      result += text_[at_++];
    }
    if (result.empty()) Fail();
    return result;
  }

  [[noreturn]] void Fail() const {
    throw parse_error("Options are a JSON object of strings; at character " + std::to_string(at_) +
                      " of: " + text_);
  }

  const std::string text_;
  size_t at_ = 0;
};

}  // namespace

void readJSON(StringRef text, OptionFlags& flags) {
  JsonReader(text.cloneAsString()).ReadObject(&flags);
}

void readJSONFromEnv(StringRef variable, OptionFlags& flags) {
  const char* text = std::getenv(variable.cloneAsString().c_str());
  if (text != nullptr && *text != '\0') readJSON(text, flags);
}

// ---- values of profiles

ProfileValue::ProfileValue(Vector value)
    : type_(Type::VECTOR), number_(0), vector_(std::make_shared<Vector>(std::move(value))) {}
ProfileValue::ProfileValue(Map value)
    : type_(Type::MAP), number_(0), map_(std::make_shared<Map>(std::move(value))) {}

const ProfileValue::Vector& ProfileValue::asVector() const {
  static const Vector empty;
  return vector_ == nullptr ? empty : *vector_;
}

const ProfileValue::Map& ProfileValue::asMap() const {
  static const Map empty;
  return map_ == nullptr ? empty : *map_;
}

std::vector<uint64_t> ProfileValue::toUintVector() const {
  std::vector<uint64_t> result;
  for (const ProfileValue& value : asVector()) result.push_back(value.asUint());
  return result;
}

size_t ProfileValue::size() const {
  return type_ == Type::MAP ? asMap().size() : asVector().size();
}

double ProfileValue::sumDouble() const {
  double sum = 0;
  for (const ProfileValue& value : asVector()) sum += value.asDouble();
  return sum;
}

int64_t ProfileValue::sumInt() const { return static_cast<int64_t>(sumDouble()); }
uint64_t ProfileValue::sumUint() const { return static_cast<uint64_t>(sumDouble()); }

int64_t ProfileValue::sum2DInt() const {
  int64_t sum = 0;
  for (const ProfileValue& value : asVector()) sum += value.sumInt();
  return sum;
}

uint64_t ProfileValue::sum2DUint() const { return static_cast<uint64_t>(sum2DInt()); }

const ProfileValue* ProfileValue::getOrNull(StringRef key) const {
  const auto found = asMap().find(key.cloneAsString());
  return found == asMap().end() ? nullptr : &found->second;
}

const ProfileValue& ProfileValue::operator[](StringRef key) const {
  const ProfileValue* value = getOrNull(key);
  if (value != nullptr) return *value;
  throw poplar_error("The profile has no value '" + key.cloneAsString() + "'.");
}

const ProfileValue& ProfileValue::operator[](size_t index) const {
  if (index < asVector().size()) return asVector()[index];
  throw poplar_error("The profile has no value " + std::to_string(index) + ".");
}

ProfileValue getAsProfileValue(const OptionFlags& flags) {
  ProfileValue::Map map;
  for (const auto& [name, value] : flags) map[name] = value;
  return map;
}

// ---- names

namespace {

DebugId NextId() {
  static DebugId next = 1;
  return next++;
}

std::string Joined(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : name.empty() ? parent : parent + "/" + name;
}

}  // namespace

DebugNameAndId::DebugNameAndId(std::string name, DebugId id, std::string parentPath)
    : name_(std::move(name)), parentPath_(std::move(parentPath)), id_(id) {}
DebugNameAndId::DebugNameAndId(const char* name) : DebugNameAndId(std::string(name)) {}
DebugNameAndId::DebugNameAndId(DebugId id) : DebugNameAndId("", id) {}
DebugNameAndId::DebugNameAndId(const DebugInfo& info, std::string name)
    : DebugNameAndId(std::move(name), info.getId(), info.getPathName()) {}
DebugNameAndId::DebugNameAndId(const DebugNameAndId& parent, StringRef name)
    : DebugNameAndId(name.cloneAsString(), parent.id_, parent.getPathName()) {}
std::string DebugNameAndId::getPathName() const { return Joined(parentPath_, name_); }

DebugContext::DebugContext(const DebugInfo& parent, std::string name, SourceLocation location)
    : path_(Joined(parent.getPathName(), name)), location_(location) {}
DebugContext::DebugContext(const DebugNameAndId& parent, std::string name, SourceLocation location)
    : path_(Joined(parent.getPathName(), name)), location_(location) {}
DebugContext::DebugContext(const DebugContext& parent, StringRef name, SourceLocation location)
    : path_(Joined(parent.getPathName(), name)), location_(location) {}

DebugInfo::DebugInfo(const DebugContext& context, std::string)
    : id_(NextId()), path_(context.getPathName()) {}
DebugInfo::~DebugInfo() = default;
bool DebugInfo::setValue(std::string, const ProfileValue&) { return true; }
void DebugInfo::initializeStreamer(const std::string&, const DebugSerializationFormat&) {}
void DebugInfo::closeStreamer() {}

StringRef versionString() { return "3.4.0"; }
StringRef packageHash() { return "tensorflow_ipu"; }

}  // namespace poplar
