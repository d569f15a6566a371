#include "engine/feeds/narrow.h"

#include <algorithm>
#include <cstdint>

namespace tensorflow_ipu {
namespace {

int64_t Narrow(int64_t value) { return static_cast<int32_t>(value); }

}  // namespace

void NarrowToDevice(tensorflow::Tensor* tensor) {
  if (tensor->dtype() != tensorflow::DT_INT64) return;
  const auto values = tensor->flat<int64_t>();
  const int64_t* begin = values.data();
  const int64_t* end = begin + values.size();
  // Nearly always every value fits.
  if (std::all_of(begin, end, [](int64_t value) { return value == Narrow(value); })) return;
  tensorflow::Tensor narrowed(tensorflow::DT_INT64, tensor->shape());
  std::transform(begin, end, narrowed.flat<int64_t>().data(), Narrow);
  *tensor = std::move(narrowed);
}

}  // namespace tensorflow_ipu
