// The launches between their start and their end, so that they can be stopped.
#ifndef TENSORFLOW_IPU_ENGINE_RUNNING_LAUNCHES_H_
#define TENSORFLOW_IPU_ENGINE_RUNNING_LAUNCHES_H_

#include <cstdint>

#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// A launch, as far as stopping it is concerned.
class StoppableLaunch {
 public:
  virtual ~StoppableLaunch() = default;

  // Keeps the launch from ending until Unpin. False if it is ending already.
  virtual bool Pin() = 0;
  virtual void Unpin() = 0;

  // Makes the launch end soon, with `reason`. For who has pinned it.
  virtual void Stop(const tensorflow::Status& reason) = 0;
};

// Who waits for a launch.
enum class Waiter {
  // A thread in WaitInPython, which sees signals by itself.
  kPython,
  // TensorFlow: a session, or a function around the launch.
  kTensorFlow,
  // A thread of the engine, which no signal concerns.
  kEngine,
};

// All launches of the process. Thread-safe.
class RunningLaunches {
 public:
  // Begins to know a launch, which was asked for on this thread. False when the process is ending:
  // it must not start then.
  static bool Add(uint64_t id, Waiter waiter, StoppableLaunch* launch);
  // Forgets a launch. Once this returns, nobody comes to pin it.
  static void Remove(uint64_t id);

  static void Stop(uint64_t id, const tensorflow::Status& reason);
  // Stops what was asked for on a thread, by the system's number of it.
  static void StopThread(int64_t thread, const tensorflow::Status& reason);
  // Stops what TensorFlow waits for.
  static void StopUnattended(const tensorflow::Status& reason);

  // Stops all, and lets none start any more. Waits until they have ended, but not longer than
  // `microseconds`.
  static void ShutDown(int64_t microseconds);

  // How many there are, but for those of engines, which run as long as the process.
  static int count();
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_RUNNING_LAUNCHES_H_
