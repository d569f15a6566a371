// The processes that run one program together, each with some of its replicas ("instances").
#ifndef TENSORFLOW_IPU_ENGINE_INSTANCES_H_
#define TENSORFLOW_IPU_ENGINE_INSTANCES_H_

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/instance_watch.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// What one instance gives to others, and gets from them: a tensor of each of its replicas.
using InstanceTensors = std::vector<tensorflow::Tensor>;

// Sends tensors between the instances by the means of TensorFlow's own collectives: its servers,
// and their buffers that peers read. Thread-safe.
class Instances {
 public:
  using Done = std::function<void(const tensorflow::Status&, std::vector<InstanceTensors>)>;

  // Those that this process has joined, or null.
  static Instances* Get();

  // Joins the instances with these names of `tasks` in TensorFlow's cluster as number `index`.
  // `executor` is that of an op on `cpu`, of a process whose collectives reach the others; `seed`
  // is the same in all. Messages name instances by their `addresses`; no exchange takes longer than
  // `limit` seconds.
  static tensorflow::Status Join(std::vector<std::string> tasks, int index, uint64_t seed,
                                 std::vector<std::string> addresses, double limit,
                                 tensorflow::CollectiveExecutor* executor, tensorflow::Device* cpu);

  int count() const { return static_cast<int>(tasks_.size()); }
  int index() const { return index_; }
  // What random generators begin with that programs do not seed.
  uint64_t seed() const { return seed_; }

  // What notices faults of the others, and tells them ours.
  InstanceWatch& watch() { return watch_; }

  // Numbers what instances come to more than once and know by `name`: the launches on a device in
  // which they meet, say.
  uint64_t Next(const std::string& name);

  // Gives `mine` to the instances that begin with `first`, of which this is one, and gets what they
  // give under the same `key`: each as many tensors as `sizes` says, of the type and shape of ours.
  // `label` says what they do together; it has to be the same. Calls `done` with the tensors of all
  // of them, in order. The key must be new, and `cancellation` live until then. In a launch, the
  // key begins with its name and a semicolon. The label may have a second line: a fingerprint of
  // the program.
  void Exchange(const std::string& key, const std::string& label, int first,
                const std::vector<int>& sizes, InstanceTensors mine,
                tensorflow::CancellationManager* cancellation, Done done);

 private:
  Instances(std::vector<std::string> tasks, int index, uint64_t seed,
            std::vector<std::string> addresses, double limit,
            tensorflow::CollectiveExecutor* executor, tensorflow::Device* cpu);
  InstanceConnection Connection();

  void Send(int to, const std::string& key, const tensorflow::Tensor* tensor,
            tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done);
  void Receive(int from, const std::string& key, tensorflow::Tensor* tensor,
               tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done);
  std::string Device(int instance) const;

  const std::vector<std::string> tasks_;
  const int index_;
  const uint64_t seed_;
  const tensorflow::core::RefCountPtr<tensorflow::CollectiveExecutor> executor_;
  tensorflow::Device* const cpu_;
  InstanceWatch watch_;
  tensorflow::mutex mu_;
  std::unordered_map<std::string, uint64_t> numbers_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_INSTANCES_H_
