// Steps of popops: their parameters as text, and tensors for their results.
#ifndef TENSORFLOW_IPU_POPOPS_OPS_H_
#define TENSORFLOW_IPU_POPOPS_OPS_H_

#include <sstream>
#include <string>
#include <vector>

#include "poplar/Graph.hpp"
#include "poplar/core/LibraryOp.hpp"
#include "poputil/TileMapping.hpp"

namespace popops {

inline size_t CountOf(const std::vector<size_t>& shape) {
  size_t count = 1;
  for (const size_t size : shape) count *= size;
  return count;
}

// Numbers and lists as words of a text.
class ParameterWriter {
 public:
  template <typename T>
  ParameterWriter& Add(const T& value) {
    text_ << value << ' ';
    return *this;
  }
  template <typename T>
  ParameterWriter& Add(const std::vector<T>& values) {
    Add(values.size());
    for (const T& value : values) Add(value);
    return *this;
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

// The same words in their order.
class ParameterReader {
 public:
  explicit ParameterReader(const std::string& text) : text_(text) {}

  template <typename T>
  T Next() {
    T value{};
    text_ >> value;
    return value;
  }
  template <typename T = size_t>
  std::vector<T> List() {
    std::vector<T> values(Next<size_t>());
    for (T& value : values) value = Next<T>();
    return values;
  }

 private:
  std::istringstream text_;
};

inline poplar::Tensor NewLinear(poplar::Graph& graph, const poplar::Type& type,
                                const std::vector<size_t>& shape,
                                const poplar::DebugContext& context) {
  const poplar::Tensor tensor = graph.addVariable(type, shape, context);
  poputil::mapTensorLinearly(graph, tensor);
  return tensor;
}

}  // namespace popops

#endif  // TENSORFLOW_IPU_POPOPS_OPS_H_
