// Which replicas of a launch run, and which wait for their turn.
#ifndef TENSORFLOW_IPU_ENGINE_TURNS_H_
#define TENSORFLOW_IPU_ENGINE_TURNS_H_

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Decides how many of `num_replicas` replicas run at a time: as many as the process has cores, or
// as the environment variable TENSORFLOW_IPU_REPLICAS_AT_ONCE says. Sets `lanes` to 0 if all run at
// once, each on as many threads as it can use.
tensorflow::Status ChooseLanes(int num_replicas, int* lanes);

// Lanes of one launch. Replica r belongs to lane r mod L, and one thread at most runs a lane. A
// replica keeps its lane as long as it has something to do. When all that it has left waits (for
// other replicas, or for a feed), the lowest replica of the lane that can go on is next. It does
// not begin while another lane runs a much lower one: what it gives before that would be kept.
//
// All work of a replica comes here as tasks of its executor's runner: kernels that wait give their
// threads back, and what follows them is a task again. So no thread waits here. Thread-safe.
class Turns : public std::enable_shared_from_this<Turns> {
 public:
  using Task = std::function<void()>;
  using Runner = std::function<void(Task)>;

  // Called with a replica that has nothing to do, while no replica of its lane runs. The others of
  // the lane are those at a distance of `lanes`.
  using Pause = std::function<void(int replica)>;

  // The threads are those of `pool`.
  Turns(int num_replicas, int lanes, Runner pool, Pause pause);

  // The runner for a replica. Keeps this alive.
  Runner RunnerOf(int replica);

 private:
  struct Lane {
    // Of each replica of the lane, in the order of the replicas.
    std::vector<std::deque<Task>> tasks;
    int active = 0;  // the replica that runs, if there is a thread
    bool has_thread = false;
  };

  void Add(int replica, Task task);
  void Run(int lane);
  // The replica that a lane runs, if it has nothing to do; else -1.
  int Pausing(int lane) TF_LOCKS_EXCLUDED(mu_);
  int Count() const { return static_cast<int>(lanes_.size()); }
  std::deque<Task>& TasksOf(int replica) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return lanes_[replica % Count()].tasks[replica / Count()];
  }
  // The replica of a lane that is next, or -1.
  int Next(int lane) TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives threads to lanes that have none and can go on. Returns these lanes.
  std::vector<int> Wake() TF_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Start(const std::vector<int>& lanes);

  const Runner pool_;
  const Pause pause_;
  tensorflow::mutex mu_;
  std::vector<Lane> lanes_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_TURNS_H_
