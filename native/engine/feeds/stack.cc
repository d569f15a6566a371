#include "engine/feeds/stack.h"

#include <algorithm>
#include <cstring>

#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/tstring.h"

namespace tensorflow_ipu {

tensorflow::Status CopyToPlace(const tensorflow::Tensor& part, int64_t index,
                               tensorflow::Tensor* whole) {
  const int64_t size = part.NumElements();
  if (size == 0) return tensorflow::OkStatus();
  if (part.dtype() == tensorflow::DT_STRING) {
    const auto* from = part.flat<tensorflow::tstring>().data();
    auto* to = whole->flat<tensorflow::tstring>().data();
    std::copy(from, from + size, to + index * size);
    return tensorflow::OkStatus();
  }
  if (!tensorflow::DataTypeCanUseMemcpy(part.dtype())) {
    return tensorflow::errors::Unimplemented(
        "Tensors of type ", tensorflow::DataTypeString(part.dtype()), " cannot be stacked.");
  }
  const size_t bytes = size * tensorflow::DataTypeSize(part.dtype());
  auto* to = static_cast<char*>(whole->data()) + index * bytes;
  std::memcpy(to, part.data(), bytes);
  return tensorflow::OkStatus();
}

}  // namespace tensorflow_ipu
