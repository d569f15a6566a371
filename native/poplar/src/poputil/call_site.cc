#include "poputil/call_site.h"

#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"
#include "poputil/exceptions.hpp"

namespace poputil {

using poplar::Tensor;
using poplar::Type;

namespace {

const OptionRule* Find(const std::vector<OptionRule>& rules, const std::string& name) {
  for (const OptionRule& rule : rules) {
    if (name == rule.name) return &rule;
  }
  return nullptr;
}

bool Allows(const OptionRule& rule, const std::string& value) {
  if (rule.words.empty()) return true;
  for (const char* word : rule.words) {
    if (value == word) return true;
  }
  return false;
}

std::string Names(const std::vector<OptionRule>& rules) {
  std::string names;
  for (const OptionRule& rule : rules)
    names += (names.empty() ? "" : ", ") + std::string(rule.name);
  return names.empty() ? "none" : names;
}

std::string Words(const OptionRule& rule) {
  std::string words;
  for (const char* word : rule.words)
    words += (words.empty() ? "'" : ", '") + std::string(word) + "'";
  return words;
}

}  // namespace

void CheckOptions(const char* function, const poplar::OptionFlags& options,
                  const std::vector<OptionRule>& rules) {
  for (const auto& [name, value] : options) {
    const OptionRule* rule = Find(rules, name);
    if (rule == nullptr) {
      throw poplar::invalid_option(std::string(function) + " has no option '" + name +
                                   "' (given: '" + value + "'). Its options: " + Names(rules) +
                                   ".");
    }
    if (!Allows(*rule, value)) {
      throw poplar::invalid_option(std::string(function) + ": option '" + name + "' is '" + value +
                                   "'; expected one of " + Words(*rule) + ".");
    }
  }
}

std::string ShapeText(const std::vector<size_t>& shape) {
  std::string text;
  for (const size_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "{" + text + "}";
}

void CallSite::Fail(const std::string& message) const {
  std::string text = function_;
  const poplar::SourceLocation& location = debug_.location();
  if (location.isValid()) {
    text += std::string(" (") + location.getFileName() + ":" +
            std::to_string(location.getLineNumber()) + ")";
  }
  throw poplibs_error(text + ": " + message);
}

void CallSite::CheckFloating(const char* name, const Type& type) const {
  if (type == poplar::FLOAT || type == poplar::HALF) return;
  Fail(std::string(name) + " is of type " + type.toString().cloneAsString() +
       "; expected float or half. Cast it before, with popops::cast.");
}

void CallSite::CheckFloating(const char* name, const Tensor& tensor) const {
  CheckFloating(name, tensor.elementType());
}

void CallSite::CheckType(const char* name, const Tensor& tensor, const Type& type) const {
  if (tensor.elementType() == type) return;
  Fail(std::string(name) + " is of type " + tensor.elementType().toString().cloneAsString() +
       "; expected " + type.toString().cloneAsString() + ".");
}

void CallSite::CheckRank(const char* name, const Tensor& tensor, unsigned rank) const {
  if (tensor.rank() == rank) return;
  Fail(std::string(name) + " has shape " + tensor.shapeToString() + "; expected " +
       std::to_string(rank) + " dimensions.");
}

void CallSite::CheckShape(const char* name, const Tensor& tensor,
                          const std::vector<size_t>& shape) const {
  if (tensor.shape() == shape) return;
  Fail(std::string(name) + " has shape " + tensor.shapeToString() + "; expected " +
       ShapeText(shape) + ".");
}

Tensor CallSite::NewTensor(const Type& type, const std::vector<size_t>& shape,
                           const char* name) const {
  Tensor tensor = graph_.addVariable(type, shape, poplar::DebugContext(debug_, name));
  mapTensorLinearly(graph_, tensor);
  return tensor;
}

Tensor CallSite::NewLike(const Type& type, const Tensor& like, const char* name) const {
  return graph_.clone(type, like, poplar::DebugContext(debug_, name));
}

void CallSite::Add(poplar::program::Sequence& program, const char* kernel,
                   const Attributes& attributes, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& outputs,
                   poplar::core::KernelAliasing aliasing) const {
  program.add(poplar::core::libraryOp(graph_, kernel, attributes.text(), inputs, outputs, debug_,
                                      aliasing));
}

}  // namespace poputil
