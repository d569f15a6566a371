#include "engine/equal_copies.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/remote_memory.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tensorflow_ipu {

using tensorflow::Tensor;
using tensorflow::Var;

namespace {

using Entries = std::vector<RemoteMemory::Entry>;

// Variables of fewer bytes are not worth the comparison.
constexpr size_t kSmallBytes = 64 << 10;
// A comparison of more bytes takes a time that counts.
constexpr size_t kBlockBytes = 1 << 20;

bool IsLarge(const Tensor& value) {
  return value.IsInitialized() && value.TotalBytes() > kSmallBytes &&
         tensorflow::DataTypeCanUseMemcpy(value.dtype());
}

// Sparse updates write into the buffer of a variable in copy-on-read mode whoever else has it.
bool IsShareable(Var* variable) {
  tensorflow::tf_shared_lock lock(*variable->mu());
  return !variable->copy_on_read_mode.load() && variable->is_initialized &&
         IsLarge(*variable->tensor());
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
  variable.is_left.resize(1);
  for (Var* copy : copies) {
    const Tensor value = ValueOf(copy);
    const Entries* entries = RemoteMemory::Entries(value);
    if (entries == nullptr) break;
    variable.is_left.resize(entries->size());
    // The launch before has shared what it could.
    std::vector<uint64_t>& seen = variable.seen.emplace_back();
    for (const RemoteMemory::Entry& entry : *entries) seen.push_back(entry.store);
  }
}

void EqualCopies::Share(int own, int first, int stride) {
  if (!shares_) return;
  tensorflow::tf_shared_lock lock(mu_);
  for (Variable& variable : variables_) Share(own, first, stride, &variable);
}

void EqualCopies::Share(int own, int first, int stride, Variable* variable) {
  if (variable->seen.empty()) {
    ShareWhole(own, first, stride, variable);
  } else {
    ShareEntries(own, variable);
  }
}

bool EqualCopies::AreEqual(const Tensor& a, const Tensor& b, std::atomic<bool>* is_left) {
  const size_t equal = EqualBytes(a, b);
  if (equal == a.TotalBytes()) return true;
  if (equal > 0) *is_left = true;
  return false;
}

void EqualCopies::ShareEntries(int own, Variable* variable) {
  tensorflow::mutex_lock lock(variable->entries);
  Var* const copy = variable->copies[own].get();
  const Tensor memory = ValueOf(copy);
  const Entries& entries = *RemoteMemory::Entries(memory);
  std::vector<uint64_t>& seen = variable->seen[own];
  std::vector<Tensor> others;  // holds the entries that are compared
  for (size_t e = 0; e < entries.size(); ++e) {
    if (entries[e].store == seen[e]) continue;
    seen[e] = entries[e].store;
    const Tensor& value = entries[e].value;
    std::atomic<bool>* is_left = &variable->is_left[e];
    if (*is_left || !IsLarge(value)) continue;
    if (others.empty()) {
      for (const auto& other : variable->copies) {
        if (other.get() != copy) others.push_back(ValueOf(other.get()));
      }
    }
    for (const Tensor& other : others) {
      const Tensor& candidate = (*RemoteMemory::Entries(other))[e].value;
      if (candidate.data() == nullptr) continue;
      if (candidate.data() == value.data()) break;
      if (!AreEqual(candidate, value, is_left)) continue;
      tensorflow::mutex_lock own_lock(*copy->mu());
      TF_CHECK_OK(RemoteMemory::Store(static_cast<int64_t>(e), candidate, copy->tensor()));
      seen[e] = (*RemoteMemory::Entries(*copy->tensor()))[e].store;
      break;
    }
  }
}

void EqualCopies::ShareWhole(int own, int first, int stride, Variable* variable) {
  Var* const copy = variable->copies[own].get();
  std::atomic<bool>* is_left = &variable->is_left[0];
  if (*is_left || !IsShareable(copy)) return;
  const Tensor value = ValueOf(copy);
  for (size_t r = first; r < variable->copies.size(); r += stride) {
    Var* const other = variable->copies[r].get();
    if (other == copy || !IsShareable(other)) continue;
    const Tensor candidate = ValueOf(other);
    if (candidate.dtype() != value.dtype() || candidate.shape() != value.shape()) continue;
    if (candidate.data() == value.data()) return;
    if (!AreEqual(candidate, value, is_left)) continue;
    tensorflow::mutex_lock lock(*copy->mu());
    *copy->tensor() = candidate;
    return;
  }
}

int64_t EqualCopies::BytesOf(const Variable& variable) {
  std::set<const void*> buffers;
  int64_t bytes = 0;
  const auto add = [&](const Tensor& part) {
    if (part.data() != nullptr && buffers.insert(part.data()).second) bytes += part.TotalBytes();
  };
  for (const auto& copy : variable.copies) {
    const Tensor value = ValueOf(copy.get());
    const Entries* entries = RemoteMemory::Entries(value);
    if (entries == nullptr) {
      add(value);
    } else {
      for (const RemoteMemory::Entry& entry : *entries) add(entry.value);
    }
  }
  return bytes;
}

int64_t EqualCopies::ShareAllAndClose() {
  tensorflow::mutex_lock lock(mu_);
  int64_t bytes = 0;
  for (Variable& variable : variables_) {
    const int replicas = shares_ ? static_cast<int>(variable.copies.size()) : 0;
    const int first = variable.seen.empty() ? 1 : 0;  // the others are compared with the first
    for (int r = first; r < replicas; ++r) Share(r, 0, 1, &variable);
    bytes += BytesOf(variable);
  }
  variables_.clear();
  return bytes;
}

}  // namespace tensorflow_ipu
