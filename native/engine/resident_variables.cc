#include "engine/resident_variables.h"

#include <utility>

#include "engine/remote_memory.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorflow_ipu {

using tensorflow::Tensor;
using tensorflow::Var;

namespace {

bool SameBuffer(const Tensor& a, const Tensor& b) {
  return a.SharesBufferWith(b) && a.data() == b.data() && a.shape() == b.shape();
}

// Whether the user's variable is as it was when `value` was kept. A sparse read outside a program
// copies a buffer that has other owners, as if it were to write, so then contents tell.
bool IsUntouched(Var* variable, const Tensor& value) {
  tensorflow::tf_shared_lock lock(*variable->mu());
  const Tensor& now = *variable->tensor();
  if (SameBuffer(now, value)) return true;
  return variable->copy_on_read_mode.load() && now.dtype() == value.dtype() &&
         now.shape() == value.shape() && now.tensor_data() == value.tensor_data();
}

// Makes the buffer of the user's variable one that nobody can write or assign without a trace.
Tensor OwnBuffer(Var* variable) {
  // In this mode sparse updates would write into a buffer whatever its owners; the next one
  // switches it on again.
  variable->copy_on_read_mode = false;
  // A buffer with other owners may come back by an assignment: that of a constant, say.
  Tensor* value = variable->tensor();
  if (!value->RefCountIsOne()) {
    const bool is_remote = RemoteMemory::Entries(*value) != nullptr;
    *value = is_remote ? RemoteMemory::Copy(*value) : tensorflow::tensor::DeepCopy(*value);
  }
  return *value;
}

}  // namespace

ReplicaVariables ResidentVariables::Take(Var* variable) {
  Kept kept;
  {
    tensorflow::mutex_lock lock(mu_);
    const auto found = kept_.find(variable);
    if (found == kept_.end()) return {};
    kept = std::move(found->second);
    kept_.erase(found);
  }
  if (!IsUntouched(variable, kept.value)) return {};
  return std::move(kept.replicas);
}

void ResidentVariables::Keep(Var* variable, ReplicaVariables replicas) {
  Kept kept;
  {
    tensorflow::mutex_lock lock(*variable->mu());
    bool differ = false;
    for (auto& replica : replicas) {
      if (SameBuffer(*replica->tensor(), *variable->tensor())) {
        replica.reset();
      } else {
        differ = true;
      }
    }
    if (!differ) return;
    kept.value = OwnBuffer(variable);
  }
  kept.replicas = std::move(replicas);
  kept.watch =
      tensorflow::core::WeakPtr<Var>(variable, [this, variable] { this->Forget(variable); });
  tensorflow::mutex_lock lock(mu_);
  kept_[variable] = std::move(kept);
}

void ResidentVariables::Clear() {
  std::unordered_map<Var*, Kept> dropped;  // Freed without the lock, which a watch may wait for.
  tensorflow::mutex_lock lock(mu_);
  dropped.swap(kept_);
}

void ResidentVariables::Forget(Var* variable) {
  Kept dropped;
  tensorflow::mutex_lock lock(mu_);
  const auto found = kept_.find(variable);
  if (found == kept_.end()) return;
  dropped = std::move(found->second);
  kept_.erase(found);
}

}  // namespace tensorflow_ipu
