#include "engine/remote_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

using tensorflow::DMAHelper;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorBuffer;
using tensorflow::TensorShape;

// A range of addresses without pages. All copies of a value have the same.
class RemoteMemory::Addresses {
 public:
  explicit Addresses(size_t size)
      : size_(size), begin_(mmap(nullptr, std::max<size_t>(size, 1), PROT_NONE, kFlags, -1, 0)) {}
  ~Addresses() {
    if (valid()) munmap(begin_, std::max<size_t>(size_, 1));
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  bool valid() const { return begin_ != MAP_FAILED; }
  void* begin() const { return begin_; }
  size_t size() const { return size_; }

 private:
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

  const size_t size_;
  void* const begin_;
};

namespace {

TensorShape EntryShape(const Tensor& memory) {
  TensorShape shape = memory.shape();
  shape.RemoveDim(0);
  return shape;
}

Status CheckEntry(const Tensor& memory, int64_t entry) {
  if (entry >= 0 && entry < memory.dim_size(0)) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(
      "A remote buffer has no such entry. Expected: a number from 0 to ", memory.dim_size(0) - 1,
      ". Received: ", entry, ".");
}

uint64_t NextStore() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

Tensor Zeros(tensorflow::DataType type, const TensorShape& shape) {
  Tensor zeros(type, shape);
  // All bits zero is zero in every type of numbers.
  std::fill_n(static_cast<char*>(zeros.data()), zeros.TotalBytes(), 0);
  return zeros;
}

// An entry must not keep alive the larger tensor that a value is a part of.
Tensor Whole(const Tensor& value) {
  TensorBuffer* buffer = DMAHelper::buffer(const_cast<Tensor*>(&value));
  const bool is_part = buffer != nullptr && buffer->root_buffer()->size() > value.TotalBytes();
  return is_part ? tensorflow::tensor::DeepCopy(value) : value;
}

}  // namespace

RemoteMemory::RemoteMemory(std::shared_ptr<const Addresses> addresses, std::vector<Entry> entries)
    : TensorBuffer(addresses->begin()),
      addresses_(std::move(addresses)),
      size_(addresses_->size()),
      entries_(std::move(entries)) {}

Status RemoteMemory::Make(tensorflow::DataType type, const TensorShape& shape, Tensor* memory) {
  if (shape.dims() == 0 || !tensorflow::DataTypeCanUseMemcpy(type)) {
    return tensorflow::errors::InvalidArgument(
        "Expected a remote buffer of numbers with a dimension for entries. Received: ",
        tensorflow::DataTypeString(type), shape.DebugString());
  }
  const size_t size = shape.num_elements() * tensorflow::DataTypeSize(type);
  auto addresses = std::make_shared<const Addresses>(size);
  if (!addresses->valid()) {
    return tensorflow::errors::ResourceExhausted(
        "There are no addresses for a remote buffer of ", size,
        " bytes. They need no memory: raise the limit of the process (ulimit -v).");
  }
  tensorflow::core::RefCountPtr<TensorBuffer> buffer(
      new RemoteMemory(std::move(addresses), std::vector<Entry>(shape.dim_size(0))));
  *memory = Tensor(type, shape, buffer.get());
  return tensorflow::OkStatus();
}

const RemoteMemory* RemoteMemory::Of(const Tensor& memory) {
  return dynamic_cast<const RemoteMemory*>(DMAHelper::buffer(&memory));
}

const std::vector<RemoteMemory::Entry>* RemoteMemory::Entries(const Tensor& memory) {
  const RemoteMemory* buffer = Of(memory);
  return buffer == nullptr ? nullptr : &buffer->entries_;
}

Status RemoteMemory::Load(const Tensor& memory, int64_t entry, Tensor* value) {
  TF_RETURN_IF_ERROR(CheckEntry(memory, entry));
  const RemoteMemory* buffer = Of(memory);
  if (buffer == nullptr) {
    *value = tensorflow::tensor::DeepCopy(memory.SubSlice(entry));
    return tensorflow::OkStatus();
  }
  *value = buffer->entries_[entry].value;
  if (value->data() == nullptr) *value = Zeros(memory.dtype(), EntryShape(memory));
  return tensorflow::OkStatus();
}

Status RemoteMemory::Store(int64_t entry, const Tensor& value, Tensor* memory) {
  TF_RETURN_IF_ERROR(CheckEntry(*memory, entry));
  const TensorShape shape = EntryShape(*memory);
  Tensor stored;
  if (value.dtype() != memory->dtype() || !stored.CopyFrom(Whole(value), shape)) {
    return tensorflow::errors::InvalidArgument(
        "A value does not match the entries of a remote buffer. Expected: ",
        tensorflow::DataTypeString(memory->dtype()), shape.DebugString(),
        ". Received: ", tensorflow::DataTypeString(value.dtype()), value.shape().DebugString());
  }
  if (Of(*memory) == nullptr) {
    if (!memory->RefCountIsOne()) *memory = tensorflow::tensor::DeepCopy(*memory);
    const tensorflow::StringPiece bytes = stored.tensor_data();
    std::copy(bytes.begin(), bytes.end(),
              static_cast<char*>(memory->data()) + entry * bytes.size());
    return tensorflow::OkStatus();
  }
  if (!memory->RefCountIsOne()) *memory = Copy(*memory);
  auto* buffer = static_cast<RemoteMemory*>(DMAHelper::buffer(memory));
  buffer->entries_[entry] = {std::move(stored), NextStore()};
  return tensorflow::OkStatus();
}

Tensor RemoteMemory::Copy(const Tensor& memory) {
  const RemoteMemory* buffer = Of(memory);
  tensorflow::core::RefCountPtr<TensorBuffer> copy(
      new RemoteMemory(buffer->addresses_, buffer->entries_));
  return Tensor(memory.dtype(), memory.shape(), copy.get());
}

void RemoteMemory::FillAllocationDescription(tensorflow::AllocationDescription* proto) const {
  proto->set_requested_bytes(static_cast<int64_t>(size_));
}

}  // namespace tensorflow_ipu
