// State of the simulated devices that outlives single launches.
#ifndef TENSORFLOW_IPU_ENGINE_DEVICE_STATE_H_
#define TENSORFLOW_IPU_ENGINE_DEVICE_STATE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/events.h"
#include "engine/resident_variables.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// The number of TensorFlow devices `/device:IPU:k` that every session and eager context gets: one
// for each IPU of the largest simulated machine. An eager context cannot gain devices later, so
// they all exist from the start; the configuration says which are attached.
constexpr int kMaxDevices = 16;

// One TensorFlow device: the random generator, what is loaded and its variables, and how many
// launches run.
class DeviceState {
 public:
  // The state of `/device:IPU:<ordinal>`, or of one that Add made; null when there is none.
  static DeviceState* Get(int ordinal);
  // Makes a device that no configuration knows, for a program that keeps it until the process ends.
  // Returns its ordinal, which is kMaxDevices or more.
  static int Add();

  // Launches that run now or wait for their turn.
  int running_launches();
  // Calls `start` when no other launch runs on this device: at once, or when the one before ends.
  // A device runs one program at a time.
  void BeginLaunch(uint64_t id, std::function<void()> start);
  void EndLaunch();
  // Takes back a launch that waits for its turn. False if it does not: it runs, or has ended.
  bool Withdraw(uint64_t id);

  // Blocks until no launch runs on this device, or `cancellation` (may be null) is cancelled.
  tensorflow::Status WaitIdle(tensorflow::CancellationManager* cancellation);
  // The same for some time only. Returns whether no launch runs.
  bool WaitIdle(std::chrono::microseconds time);

  // Reseeds the generator. With `identical_replicas` every replica of a launch gets one seed.
  void ResetSeed(uint64_t seed, bool identical_replicas);
  // Sets the seed that the generator begins with, unless it has been reseeded or told before.
  void BeginWithSeed(uint64_t seed);
  // One seed for each replica of the next launch.
  std::vector<uint64_t> DrawSeeds(int num_replicas);

  // Notes that `executable` is about to run, recording load and transfer events when it was not
  // the one loaded before. The resident variables are those of one executable, and go with it.
  void Load(const std::string& executable, bool has_inputs);
  // Forgets what is loaded.
  void Unload();
  // What the loaded executable's replicas hold in their variables.
  ResidentVariables& resident_variables() { return resident_variables_; }

 private:
  DeviceState();
  static DeviceState* All();

  int ordinal_ = 0;
  tensorflow::mutex mu_;
  tensorflow::condition_variable changed_;
  int running_ TF_GUARDED_BY(mu_) = 0;
  // By the number of the launch.
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_ TF_GUARDED_BY(mu_);
  uint64_t generator_ TF_GUARDED_BY(mu_);
  bool has_seed_ TF_GUARDED_BY(mu_) = false;
  bool identical_replicas_ TF_GUARDED_BY(mu_) = false;
  std::string loaded_ TF_GUARDED_BY(mu_);
  ResidentVariables resident_variables_;
};

// Which devices are attached, as the Python configuration last said.
class Attachment {
 public:
  static void Set(int64_t generation, int num_devices);
  // Changes with every configuration; executables of an older one are not run again.
  static int64_t generation();
  static int num_devices();
  // Lets TensorFlow list the devices from now on.
  static void List();
  static bool listed();
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_DEVICE_STATE_H_
