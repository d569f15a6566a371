#include "popart/attributes.hpp"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace popart {

// A value has one of the members, as an attribute of ONNX does; the others read as zero.
struct Value {
  int64_t i = 0;
  float f = 0;
  std::string s;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
};

struct Attributes::Data {
  std::vector<std::string> names;
  std::map<std::string, Value> values;

  Value& Add(const std::string& key) {
    if (values.count(key) == 0) names.push_back(key);
    return values[key] = Value();
  }
  const Value* Find(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  }
};

Attributes::Attributes() : data_(new Data) {}
Attributes::Attributes(const Attributes& other) : data_(new Data(*other.data_)) {}
Attributes::Attributes(Attributes&& other) : data_(new Data(std::move(*other.data_))) {}
Attributes& Attributes::operator=(const Attributes& other) {
  *data_ = *other.data_;
  return *this;
}
Attributes::~Attributes() = default;

const std::vector<std::string>& Attributes::getNames() const { return data_->names; }
bool Attributes::hasAttribute(const std::string& key) const {
  return data_->values.count(key) != 0;
}

void Attributes::takeAttribute(const std::string& key, const Attributes& other) {
  if (const Value* value = other.data_->Find(key)) data_->Add(key) = *value;
}

Attributes Attributes::filter(const std::function<bool(const std::string&)>& keep) const {
  Attributes kept;
  for (const std::string& name : data_->names) {
    if (keep(name)) kept.takeAttribute(name, *this);
  }
  return kept;
}

Attributes Attributes::filter(const std::string& name) const {
  return filter([&name](const std::string& other) { return other != name; });
}

bool Attributes::read(const std::string& key, Int& value) const {
  const Value* found = data_->Find(key);
  if (found != nullptr) value = found->i;
  return found != nullptr;
}

bool Attributes::read(const std::string& key, bool& value) const {
  const Value* found = data_->Find(key);
  if (found == nullptr) return false;
  if (found->i != 0 && found->i != 1) {
    throw error("The attribute {} is a boolean, so 0 or 1 was expected. Received: {}", key,
                found->i);
  }
  value = found->i == 1;
  return true;
}

bool Attributes::read(const std::string& key, Float& value) const {
  const Value* found = data_->Find(key);
  if (found != nullptr) value = found->f;
  return found != nullptr;
}

bool Attributes::read(const std::string& key, String& value) const {
  const Value* found = data_->Find(key);
  if (found == nullptr || found->s.empty()) return false;
  value = found->s;
  return true;
}

bool Attributes::read(const std::string& key, Ints& value) const {
  const Value* found = data_->Find(key);
  if (found != nullptr) value = found->ints;
  return found != nullptr;
}

bool Attributes::read(const std::string& key, Floats& value) const {
  const Value* found = data_->Find(key);
  if (found != nullptr) value = found->floats;
  return found != nullptr;
}

bool Attributes::read(const std::string& key, Strings& value) const {
  const Value* found = data_->Find(key);
  if (found != nullptr) value = found->strings;
  return found != nullptr;
}

void Attributes::write(const std::string& key, Int value) { data_->Add(key).i = value; }
void Attributes::write(const std::string& key, Float value) { data_->Add(key).f = value; }
void Attributes::write(const std::string& key, const String& value) { data_->Add(key).s = value; }
void Attributes::write(const std::string& key, const Ints& value) { data_->Add(key).ints = value; }
void Attributes::write(const std::string& key, const Floats& value) {
  data_->Add(key).floats = value;
}
void Attributes::write(const std::string& key, const Strings& value) {
  data_->Add(key).strings = value;
}

}  // namespace popart
