#include "engine/feeds/host_arrays.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/feeds/narrow.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorflow_ipu {

namespace {

tensorflow::Tensor CopyRow(tensorflow::DataType type, const tensorflow::TensorShape& shape,
                           const void* array, int64_t row) {
  tensorflow::Tensor tensor(type, shape);
  const tensorflow::StringPiece bytes = tensor.tensor_data();
  const auto* from = static_cast<const char*>(array) + row * bytes.size();
  std::copy_n(from, bytes.size(), static_cast<char*>(tensor.data()));
  NarrowToDevice(&tensor);
  return tensor;
}

}  // namespace

std::vector<Element> CopyElements(const InfeedOptions& options, int64_t count,
                                  const void* const* arrays, const int64_t* rows) {
  std::vector<Element> elements(count);
  for (size_t i = 0; i < options.types.size(); ++i) {
    std::unordered_map<int64_t, int64_t> first;  // elements by row
    for (int64_t e = 0; e < count; ++e) {
      const int64_t row = rows == nullptr ? e : rows[i * count + e];
      const auto [found, is_new] = first.emplace(row, e);
      elements[e].push_back(is_new ? CopyRow(options.types[i], options.shapes[i], arrays[i], row)
                                   : elements[found->second][i]);
    }
  }
  return elements;
}

}  // namespace tensorflow_ipu
