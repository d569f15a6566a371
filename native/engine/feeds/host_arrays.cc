#include "engine/feeds/host_arrays.h"

#include <algorithm>
#include <utility>

#include "engine/feeds/narrow.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorflow_ipu {

Element CopyElement(const InfeedOptions& options, const void* const* arrays, int64_t index) {
  Element element;
  for (size_t i = 0; i < options.types.size(); ++i) {
    tensorflow::Tensor tensor(options.types[i], options.shapes[i]);
    const tensorflow::StringPiece bytes = tensor.tensor_data();
    const auto* from = static_cast<const char*>(arrays[i]) + index * bytes.size();
    std::copy_n(from, bytes.size(), static_cast<char*>(tensor.data()));
    NarrowToDevice(&tensor);
    element.push_back(std::move(tensor));
  }
  return element;
}

}  // namespace tensorflow_ipu
