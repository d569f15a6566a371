#include "engine/abstract_values.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorBuffer;

// The name is PLAN_VARIABLE of configs/flags.py.
constexpr char kVariable[] = "TENSORFLOW_IPU_PLAN";
// More than any tensor has. Where addresses are limited (`ulimit -v`), a part of the limit.
constexpr uint64_t kMostBytes = uint64_t{1} << 44;
constexpr uint64_t kLeastBytes = uint64_t{1} << 30;
constexpr uint64_t kPartOfLimit = 4;
constexpr uint64_t kAlignment = 64;

// The reserved addresses.
class Range {
 public:
  static Range& Get() {
    static auto* const range = new Range;
    return *range;
  }

  bool Has(const void* address) const {
    const auto* bytes = static_cast<const char*>(address);
    return bytes >= start_ && bytes < start_ + size_;
  }

  // Tensors may have the same addresses: there is nothing to overwrite.
  void* Take(uint64_t size) {
    const uint64_t rounded = (size + kAlignment) / kAlignment * kAlignment;
    if (rounded > size_) return nullptr;
    uint64_t begin = next_.fetch_add(rounded) % size_;
    if (begin + rounded > size_) begin = 0;
    return start_ + begin;
  }

 private:
  Range() {
    uint64_t most = kMostBytes;
    rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      most = std::min<uint64_t>(most, limit.rlim_cur / kPartOfLimit);
    }
    for (size_ = most; size_ >= kLeastBytes; size_ /= 2) {
      void* found = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (found != MAP_FAILED) {
        start_ = static_cast<char*>(found);
        return;
      }
    }
    size_ = 0;
  }

  char* start_ = nullptr;
  uint64_t size_ = 0;
  std::atomic<uint64_t> next_{0};
};

class Buffer : public TensorBuffer {
 public:
  Buffer(void* data, size_t size) : TensorBuffer(data), size_(size) {}

  size_t size() const override { return size_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<int64_t>(size_));
  }
  // So that no kernel takes it for a result.
  bool OwnsMemory() const override { return false; }

 private:
  const size_t size_;
};

std::atomic<ValueNeededCallback> value_needed{nullptr};

}  // namespace

bool AbstractValues::Enabled() {
  static const bool enabled = [] {
    const char* value = std::getenv(kVariable);
    return value != nullptr && *value != '\0';
  }();
  return enabled;
}

bool AbstractValues::HasAddress(const void* address) { return Range::Get().Has(address); }

bool AbstractValues::Has(const Tensor& tensor) {
  return tensor.IsInitialized() && HasAddress(tensor.data());
}

Tensor AbstractValues::Make(tensorflow::DataType type, const tensorflow::TensorShape& shape) {
  const uint64_t size = shape.num_elements() * tensorflow::DataTypeSize(type);
  void* data = Range::Get().Take(size);
  if (data == nullptr) return Tensor(type, shape);  // an address range too small: as without plans
  auto* buffer = new Buffer(data, size);
  const Tensor made(type, shape, buffer);
  buffer->Unref();
  return made;
}

void AbstractValues::SetValueNeeded(ValueNeededCallback callback) { value_needed = callback; }

tensorflow::Status AbstractValues::Need(const std::string& name) {
  const ValueNeededCallback callback = value_needed;
  if (callback != nullptr) callback(name.c_str());
  return tensorflow::errors::FailedPrecondition(
      "The value of ", name, " is needed, and this process only plans programs (", kVariable,
      "): it computes none.");
}

}  // namespace tensorflow_ipu
