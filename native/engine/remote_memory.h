// Values of remote buffers: their entries are tensors that several variables may share.
#ifndef TENSORFLOW_IPU_ENGINE_REMOTE_MEMORY_H_
#define TENSORFLOW_IPU_ENGINE_REMOTE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// The buffer of a tensor [entries, ...] whose elements are in one tensor for each entry. Only the
// functions below see elements: the memory that the tensor itself points to has no pages, and its
// use ends the process.
//
// A load returns the tensor of an entry, and a store replaces it, so neither copies elements.
// Copies of the tensor share the entries until a store. That replaces one entry of one copy.
class RemoteMemory : public tensorflow::TensorBuffer {
 public:
  // Makes a value whose entries are zero. `shape` has at least one dimension, that of entries, and
  // `type` is one of numbers.
  static tensorflow::Status Make(tensorflow::DataType type, const tensorflow::TensorShape& shape,
                                 tensorflow::Tensor* memory);

  struct Entry {
    tensorflow::Tensor value;  // without elements if nothing was stored
    uint64_t store = 0;        // number of the store, which no other store has
  };

  // Returns the entries of a tensor, null if it is no remote memory.
  static const std::vector<Entry>* Entries(const tensorflow::Tensor& memory);

  // Loads an entry. Also of an ordinary tensor, such as a synthetic parameter: its entries are
  // rows, which are copied.
  static tensorflow::Status Load(const tensorflow::Tensor& memory, int64_t entry,
                                 tensorflow::Tensor* value);

  // Replaces an entry by `value`, which has its type and as many elements.
  static tensorflow::Status Store(int64_t entry, const tensorflow::Tensor& value,
                                  tensorflow::Tensor* memory);

  // Returns remote memory of its own with the same entries.
  static tensorflow::Tensor Copy(const tensorflow::Tensor& memory);

  size_t size() const override { return size_; }
  tensorflow::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* proto) const override;

 private:
  class Addresses;

  RemoteMemory(std::shared_ptr<const Addresses> addresses, std::vector<Entry> entries);

  static const RemoteMemory* Of(const tensorflow::Tensor& memory);

  const std::shared_ptr<const Addresses> addresses_;
  const size_t size_;
  std::vector<Entry> entries_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_REMOTE_MEMORY_H_
