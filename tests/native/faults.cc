// A library of operations, each with a fault that one sanitizer is to find.
#include <atomic>
#include <cstdint>
#include <limits>

#include "tensorflow_ipu/custom_op.h"

namespace {

using Call = const tensorflow_ipu_call*;

int32_t* Output(Call call) { return static_cast<int32_t*>(call->outputs[0].data); }

// Returns when all replicas have called it. Orders nothing for ThreadSanitizer.
void Meet(int32_t num_replicas) {
  static std::atomic<int32_t> arrived{0};
  arrived.fetch_add(1, std::memory_order_relaxed);
  while (arrived.load(std::memory_order_relaxed) < num_replicas) {
  }
}

}  // namespace

extern "C" {

int32_t custom_op_api_level = TENSORFLOW_IPU_API_LEVEL;

// Writes behind its output.
const char* address(Call call) {
  for (int64_t i = 0; i <= call->outputs[0].num_elements; ++i) Output(call)[i] = 1;
  return nullptr;
}

// Replicas count in one variable at the same time.
const char* thread(Call call) {
  static int32_t calls = 0;
  Meet(call->num_replicas);
  Output(call)[0] = ++calls;
  return nullptr;
}

// Adds to the largest integer.
const char* undefined(Call call) {
  Output(call)[0] = std::numeric_limits<int32_t>::max();
  Output(call)[0] += call->num_replicas;
  return nullptr;
}

}  // extern "C"
