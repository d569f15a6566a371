// The processes that run one program together, each with some of its replicas ("instances").
#ifndef TENSORFLOW_IPU_ENGINE_INSTANCES_H_
#define TENSORFLOW_IPU_ENGINE_INSTANCES_H_

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

// What this instance and another one give each other. Each tensor of `give` is as large as its
// counterpart in the `take` of the other, which is filled in place.
struct Parcel {
  int instance;
  std::vector<tensorflow::Tensor> give, take;
};

// An exchange as the instances compare it before they use any data.
struct ExchangeLabel {
  std::string place;    // the op, and what it does
  std::string program;  // fingerprint of the program that it is part of, or empty
  std::string layout;   // type and shape of the tensors, or empty where instances may differ

  // The label in messages.
  std::string Text() const;
};

// Sends tensors between the instances by the means of TensorFlow's own collectives: its servers,
// and their buffers that peers read. Thread-safe.
class Instances {
 public:
  // Those that this process has joined, or null.
  static Instances* Get();

  // Joins the instances with these names of `tasks` in TensorFlow's cluster as number `index`.
  // `executor` is that of an op on `cpu`, of a process whose collectives reach the others; `seed`
  // is the same in all. Messages name instances by their `addresses`; no exchange takes longer than
  // `limit` seconds.
  static tensorflow::Status Join(std::vector<std::string> tasks, int index, uint64_t seed,
                                 std::vector<std::string> addresses, double limit,
                                 tensorflow::CollectiveExecutor* executor, tensorflow::Device* cpu);

  // An error unless this process has joined `count` instances as number `index`, as a program of so
  // many was compiled for.
  static tensorflow::Status CheckJoined(int count, int index);

  int count() const { return static_cast<int>(tasks_.size()); }
  int index() const { return index_; }
  // What random generators begin with that programs do not seed.
  uint64_t seed() const { return seed_; }

  // What notices faults of the others, and tells them ours.
  InstanceWatch& watch() { return watch_; }

  // Numbers what instances come to more than once and know by `name`: the launches on a device in
  // which they meet, say.
  uint64_t Next(const std::string& name);

  // Exchanges parcels with other instances, which do so with this one under the same `key`, a new
  // one; in a launch it begins with its name and a semicolon. With `compare` their `label` has to
  // be the same. Calls `done` when all parcels have come and gone, or one cannot; `cancellation`
  // has to live until then.
  void Exchange(const std::string& key, const ExchangeLabel& label, bool compare,
                std::vector<Parcel> parcels, tensorflow::CancellationManager* cancellation,
                tensorflow::StatusCallback done);

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
