#include "serialiser.h"

#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "popart/opserialiser.hpp"
#include "popart/tensor.hpp"

namespace popart {
namespace {

template <typename T>
std::string NumberText(T value) {
  std::ostringstream text;
  text.precision(std::numeric_limits<T>::max_digits10);
  text << value;
  return text.str();
}

template <typename T>
std::string ListText(const std::vector<T>& values) {
  std::string text = "[";
  for (const T value : values) text += (text.size() > 1 ? " " : "") + NumberText(value);
  return text + "]";
}

class TextSerialiser : public OpSerialiserBase {
 public:
  using OpSerialiserBase::appendAttribute;
  void appendAttribute(const std::string& name, nonstd::optional<int64_t> value) override {
    AppendOptional(name, value);
  }
  void appendAttribute(const std::string& name, nonstd::optional<float> value) override {
    AppendOptional(name, value);
  }
  void appendAttribute(const std::string& name, nonstd::optional<double> value) override {
    AppendOptional(name, value);
  }
  void appendAttribute(const std::string& name, const std::map<TensorId, uint64_t> value) override {
    appendStrAttr(name, logging::format("{}", value));
  }
  void appendForwardOp(const Op* op) override { text_ += AttributesText(*op); }

  const std::string& Text() const { return text_; }
  void Add(const std::string& text) { text_ += text; }

 private:
  template <typename T>
  void AppendOptional(const std::string& name, const nonstd::optional<T>& value) {
    appendStrAttr(name, value ? NumberText(*value) : "?");
  }
  void appendStrAttr(const std::string& name, const std::string& value) override {
    if (!value.empty()) text_ += " " + name + "=" + value;
  }

  std::string text_;
};

void AppendTensors(TextSerialiser& serialiser, const char* title, const TensorIndexMap& tensors) {
  for (const auto& entry : tensors.tensorMap()) {
    serialiser.Add(logging::format(" {}{}={}", title, entry.first, entry.second->info));
  }
}

std::string Text(const Op& op, void (Op::*append)(OpSerialiserBase&) const) {
  TextSerialiser serialiser;
  serialiser.Add(logging::format("{}", op.opid));
  (op.*append)(serialiser);
  AppendTensors(serialiser, "in", *op.input);
  AppendTensors(serialiser, "out", *op.output);
  return serialiser.Text();
}

}  // namespace

std::string AttributesText(const Op& op) { return Text(op, &Op::appendAttributes); }
std::string OutlineText(const Op& op) { return Text(op, &Op::appendOutlineAttributes); }

OpSerialiserBase::~OpSerialiserBase() = default;

void OpSerialiserBase::appendAttribute(const std::string& name, float value) {
  appendStrAttr(name, NumberText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, double value) {
  appendStrAttr(name, NumberText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, int value) {
  appendStrAttr(name, NumberText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, int64_t value) {
  appendStrAttr(name, NumberText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, uint32_t value) {
  appendStrAttr(name, NumberText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, uint64_t value) {
  appendStrAttr(name, NumberText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, const std::string& value) {
  appendStrAttr(name, value);
}
void OpSerialiserBase::appendAttribute(const std::string& name, const std::vector<float>& value) {
  appendStrAttr(name, ListText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, const std::vector<double>& value) {
  appendStrAttr(name, ListText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, const std::vector<int64_t>& value) {
  appendStrAttr(name, ListText(value));
}
void OpSerialiserBase::appendAttribute(const std::string& name, const Scope& value) {
  appendStrAttr(name, value.str());
}
void OpSerialiserBase::appendAttribute(const std::string& name, bool value) {
  appendStrAttr(name, value ? "1" : "0");
}

}  // namespace popart
