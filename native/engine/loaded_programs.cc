#include "engine/loaded_programs.h"

#include <atomic>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/device_state.h"
#include "engine/interpreter.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {

using tensorflow::mutex_lock;
using tensorflow::Status;

namespace {

std::atomic<int64_t> loaded_programs{0};

// Unloads the program when the last one goes who uses it.
LoadedPrograms::Loaded Owned(LoadedProgram loaded) {
  ++loaded_programs;
  return LoadedPrograms::Loaded(new LoadedProgram(std::move(loaded)),
                                [](const LoadedProgram* program) {
                                  --loaded_programs;
                                  if (IsForked()) return;
                                  UnloadProgram(*program);
                                  delete program;
                                });
}

// Those of one Cluster.
struct Specialisations {
  tensorflow::mutex mu;  // held while one is loaded: each is loaded once
  int64_t generation TF_GUARDED_BY(mu) = -1;
  std::unordered_map<std::string, LoadedPrograms::Loaded> by_signature TF_GUARDED_BY(mu);
};

}  // namespace

// The programs of one kernel.
class KernelPrograms {
 public:
  explicit KernelPrograms(bool go_with_cluster) : go_with_cluster_(go_with_cluster) {}

  std::shared_ptr<Specialisations> Of(const std::string& cluster) {
    mutex_lock lock(mu_);
    auto& found = by_cluster_[cluster];
    if (found == nullptr) found = std::make_shared<Specialisations>();
    return found;
  }

  // Unloads with the lock, so that no kernel ends before its programs are gone.
  void Forget(const std::string& cluster) {
    if (!go_with_cluster_) return;
    mutex_lock lock(mu_);
    by_cluster_.erase(cluster);
  }

  void Clear() {
    mutex_lock lock(mu_);
    by_cluster_.clear();
  }

 private:
  const bool go_with_cluster_;
  tensorflow::mutex mu_;
  std::unordered_map<std::string, std::shared_ptr<Specialisations>> by_cluster_ TF_GUARDED_BY(mu_);
};

namespace {

struct Kernels {
  tensorflow::mutex mu;
  std::unordered_set<std::shared_ptr<KernelPrograms>> all TF_GUARDED_BY(mu);
};

Kernels& AllKernels() {
  static auto* kernels = new Kernels;
  return *kernels;
}

std::vector<std::shared_ptr<KernelPrograms>> ListKernels() {
  Kernels& kernels = AllKernels();
  mutex_lock lock(kernels.mu);
  return {kernels.all.begin(), kernels.all.end()};
}

}  // namespace

LoadedPrograms::LoadedPrograms(bool go_with_cluster)
    : programs_(std::make_shared<KernelPrograms>(go_with_cluster)) {
  Kernels& kernels = AllKernels();
  mutex_lock lock(kernels.mu);
  kernels.all.insert(programs_);
}

LoadedPrograms::~LoadedPrograms() {
  if (IsForked()) return;
  {
    Kernels& kernels = AllKernels();
    mutex_lock lock(kernels.mu);
    kernels.all.erase(programs_);
  }
  programs_->Clear();
}

Status LoadedPrograms::Get(const std::string& cluster, const std::string& signature,
                           const Load& load, Loaded* program) {
  const std::shared_ptr<Specialisations> specialisations = programs_->Of(cluster);
  mutex_lock lock(specialisations->mu);
  if (specialisations->generation != Attachment::generation()) {
    specialisations->by_signature.clear();
    specialisations->generation = Attachment::generation();
  }
  Loaded& found = specialisations->by_signature[signature];
  if (found == nullptr) {
    LoadedProgram loaded;
    TF_RETURN_IF_ERROR(load(&loaded));
    found = Owned(std::move(loaded));
  }
  *program = found;
  return tensorflow::OkStatus();
}

void LoadedPrograms::Forget(const std::string& cluster) {
  for (const auto& kernel : ListKernels()) kernel->Forget(cluster);
}

void LoadedPrograms::ForgetAll() {
  for (const auto& kernel : ListKernels()) kernel->Clear();
}

int64_t LoadedPrograms::count() { return loaded_programs; }

}  // namespace tensorflow_ipu
