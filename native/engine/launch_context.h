// What every op inside a launch can ask of it.
#ifndef TENSORFLOW_IPU_ENGINE_LAUNCH_CONTEXT_H_
#define TENSORFLOW_IPU_ENGINE_LAUNCH_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/collective_rendezvous.h"
#include "engine/uniform_exchange.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {

// One replica's view of one launch. It travels through TensorFlow's runtime as the collective
// executor of the call: of all per-call objects, that is the one which every kernel receives
// unchanged at any depth of loops and inner functions (step ids and step containers are not).
class LaunchContext : public tensorflow::CollectiveExecutor {
 public:
  // Of `instances` processes that run the program together, this is number `instance`.
  LaunchContext(int device_ordinal, uint64_t launch_id, int replica, int num_replicas, int instance,
                int instances, uint64_t seed, uint64_t shared_seed,
                std::shared_ptr<CollectiveRendezvous> rendezvous,
                std::shared_ptr<UniformExchange> uniform_exchange)
      : tensorflow::CollectiveExecutor(/*cem=*/nullptr),
        device_ordinal_(device_ordinal),
        launch_id_(launch_id),
        replica_(replica),
        num_replicas_(num_replicas),
        instance_(instance),
        instances_(instances),
        seed_(seed),
        shared_seed_(shared_seed),
        rendezvous_(std::move(rendezvous)),
        uniform_exchange_(std::move(uniform_exchange)) {}

  // The context of the launch that `ctx` runs in, or null outside a launch.
  static LaunchContext* From(tensorflow::OpKernelContext* ctx) {
    return dynamic_cast<LaunchContext*>(ctx->collective_executor());
  }

  int device_ordinal() const { return device_ordinal_; }
  uint64_t launch_id() const { return launch_id_; }
  int replica() const { return replica_; }
  // Replicas in this process, and the number of this one among them.
  int num_replicas() const { return num_replicas_; }
  // The same of all instances of the program.
  int total_replicas() const { return instances_ * num_replicas_; }
  int global_replica() const { return instance_ * num_replicas_ + replica_; }
  uint64_t seed() const { return seed_; }
  // A seed that is the same on all replicas of the launch, for what they compute alike.
  uint64_t shared_seed() const { return shared_seed_; }
  // Where the replicas of the launch meet.
  CollectiveRendezvous& rendezvous() const { return *rendezvous_; }
  // Where they get what replica 0 computes for all. Null if each computes everything.
  UniformExchange* uniform_exchange() const { return uniform_exchange_.get(); }

  // Where what this replica makes for the time of the launch is registered with the CPU device.
  std::string VariableContainer() const {
    return tensorflow::strings::StrCat("ipu_launch_", launch_id_, "_", replica_);
  }

  // Bytes of the variables that this replica has made for the time of the launch.
  size_t variable_bytes() const { return variable_bytes_; }
  void AddVariable(size_t bytes) { variable_bytes_ += bytes; }

  // How often `key` has been asked for before by this replica in this launch. Numbers the
  // executions of one op in a loop, so that each draws its own random stream.
  int64_t NextOccurrence(int64_t key) {
    tensorflow::mutex_lock lock(mu_);
    return occurrences_[key]++;
  }

  // Has `check` called when this replica has run to its end without an error.
  void CheckAtEnd(std::function<tensorflow::Status()> check) {
    tensorflow::mutex_lock lock(mu_);
    checks_.push_back(std::move(check));
  }

  // Returns the error of the first check that fails.
  tensorflow::Status AtEnd() {
    tensorflow::mutex_lock lock(mu_);
    for (const auto& check : checks_) TF_RETURN_IF_ERROR(check());
    return tensorflow::OkStatus();
  }

  void RunClosure(std::function<void()> closure) override { closure(); }

 private:
  const int device_ordinal_;
  const uint64_t launch_id_;
  const int replica_;
  const int num_replicas_;
  const int instance_;
  const int instances_;
  const uint64_t seed_;
  const uint64_t shared_seed_;
  const std::shared_ptr<CollectiveRendezvous> rendezvous_;
  const std::shared_ptr<UniformExchange> uniform_exchange_;
  std::atomic<size_t> variable_bytes_{0};
  tensorflow::mutex mu_;
  std::unordered_map<int64_t, int64_t> occurrences_ TF_GUARDED_BY(mu_);
  std::vector<std::function<tensorflow::Status()>> checks_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_LAUNCH_CONTEXT_H_
