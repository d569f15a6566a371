#include "engine/turns.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

using tensorflow::mutex_lock;
using tensorflow::Status;

namespace {

constexpr char kVariable[] = "TENSORFLOW_IPU_REPLICAS_AT_ONCE";

}  // namespace

Status ChooseLanes(int num_replicas, int* lanes) {
  int at_once = tensorflow::port::NumSchedulableCPUs();
  const char* asked = std::getenv(kVariable);
  if (asked != nullptr && (!absl::SimpleAtoi(asked, &at_once) || at_once < 1)) {
    return tensorflow::errors::InvalidArgument(
        "The environment variable ", kVariable, " is \"", asked,
        "\". Expected the number of replicas that run at a time, 1 or more.");
  }
  // As many replicas as cores keep all cores busy, one thread each: more threads would cost time.
  *lanes = num_replicas > 1 && at_once <= num_replicas ? at_once : 0;
  return tensorflow::OkStatus();
}

Turns::Turns(int num_replicas, int lanes, Runner pool) : pool_(std::move(pool)), lanes_(lanes) {
  for (int i = 0; i < lanes; ++i) {
    lanes_[i] = std::make_unique<Lane>();
    mutex_lock lock(lanes_[i]->mu);
    lanes_[i]->tasks.resize((num_replicas - i + lanes - 1) / lanes);
  }
}

Turns::Runner Turns::RunnerOf(int replica) {
  const int count = static_cast<int>(lanes_.size());
  return [self = shared_from_this(), lane = lanes_[replica % count].get(),
          place = replica / count](Task task) { self->Add(lane, place, std::move(task)); };
}

void Turns::Add(Lane* lane, size_t place, Task task) {
  {
    mutex_lock lock(lane->mu);
    lane->tasks[place].push_back(std::move(task));
    if (lane->has_thread) return;
    lane->has_thread = true;
  }
  pool_([self = shared_from_this(), lane] { Run(lane); });
}

void Turns::Run(Lane* lane) {
  for (;;) {
    Task task;
    {
      mutex_lock lock(lane->mu);
      if (!Next(lane, &task)) {
        lane->has_thread = false;
        return;
      }
    }
    task();
  }
}

// Takes the task that is next. Returns false if there is none.
bool Turns::Next(Lane* lane, Task* task) {
  std::vector<std::deque<Task>>& tasks = lane->tasks;
  if (tasks[lane->active].empty()) {
    const auto found = std::find_if(tasks.begin(), tasks.end(),
                                    [](const std::deque<Task>& own) { return !own.empty(); });
    if (found == tasks.end()) return false;
    lane->active = found - tasks.begin();
  }
  *task = std::move(tasks[lane->active].front());
  tasks[lane->active].pop_front();
  return true;
}

}  // namespace tensorflow_ipu
