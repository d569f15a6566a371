#include "engine/equal_copies.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tensorflow_ipu {

using tensorflow::Tensor;
using tensorflow::Var;

namespace {

// Variables of fewer bytes are not worth the comparison.
constexpr size_t kSmallBytes = 64 << 10;
// A comparison of more bytes takes a time that counts.
constexpr size_t kBlockBytes = 1 << 20;

// Sparse updates write into the buffer of a variable in copy-on-read mode whoever else has it.
bool IsShareable(Var* variable) {
  tensorflow::tf_shared_lock lock(*variable->mu());
  const Tensor& value = *variable->tensor();
  return !variable->copy_on_read_mode.load() && variable->is_initialized &&
         value.TotalBytes() > kSmallBytes && tensorflow::DataTypeCanUseMemcpy(value.dtype());
}

Tensor ValueOf(Var* variable) {
  tensorflow::tf_shared_lock lock(*variable->mu());
  return *variable->tensor();
}

// Returns how many bytes two tensors of one size have in common at their begin, in whole blocks.
size_t EqualBytes(const Tensor& a, const Tensor& b) {
  const char* left = a.tensor_data().data();
  const char* right = b.tensor_data().data();
  const size_t size = a.TotalBytes();
  size_t begin = 0;
  while (begin < size) {
    const size_t length = std::min(kBlockBytes, size - begin);
    if (std::memcmp(left + begin, right + begin, length) != 0) break;
    begin += length;
  }
  return begin;
}

}  // namespace

void EqualCopies::Add(const std::vector<Var*>& copies) {
  tensorflow::mutex_lock lock(mu_);
  Variable& variable = variables_.emplace_back();
  for (Var* copy : copies) {
    copy->Ref();
    variable.copies.emplace_back(copy);
  }
}

void EqualCopies::Share(int own, int first, int stride) {
  if (!shares_) return;
  tensorflow::tf_shared_lock lock(mu_);
  for (Variable& variable : variables_) Share(own, first, stride, &variable);
}

void EqualCopies::Share(int own, int first, int stride, Variable* variable) {
  Var* const copy = variable->copies[own].get();
  if (variable->is_left || !IsShareable(copy)) return;
  const Tensor value = ValueOf(copy);
  for (size_t r = first; r < variable->copies.size(); r += stride) {
    Var* const other = variable->copies[r].get();
    if (other == copy || !IsShareable(other)) continue;
    const Tensor candidate = ValueOf(other);
    if (candidate.dtype() != value.dtype() || candidate.shape() != value.shape()) continue;
    if (candidate.data() == value.data()) return;
    const size_t equal = EqualBytes(candidate, value);
    if (equal == value.TotalBytes()) {
      tensorflow::mutex_lock lock(*copy->mu());
      *copy->tensor() = candidate;
      return;
    }
    if (equal > 0) variable->is_left = true;
  }
}

int64_t EqualCopies::BytesOf(const Variable& variable) {
  std::set<const void*> buffers;
  int64_t bytes = 0;
  for (const auto& copy : variable.copies) {
    const Tensor value = ValueOf(copy.get());
    if (buffers.insert(value.data()).second) bytes += value.TotalBytes();
  }
  return bytes;
}

int64_t EqualCopies::ShareAllAndClose() {
  tensorflow::mutex_lock lock(mu_);
  int64_t bytes = 0;
  for (Variable& variable : variables_) {
    const int replicas = shares_ ? static_cast<int>(variable.copies.size()) : 0;
    for (int r = 1; r < replicas; ++r) Share(r, 0, 1, &variable);
    bytes += BytesOf(variable);
  }
  variables_.clear();
  return bytes;
}

}  // namespace tensorflow_ipu
