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

Turns::Turns(int num_replicas, int lanes, Runner pool, Pause pause)
    : pool_(std::move(pool)), pause_(std::move(pause)), lanes_(lanes) {
  for (int i = 0; i < lanes; ++i) lanes_[i].tasks.resize((num_replicas - i + lanes - 1) / lanes);
}

Turns::Runner Turns::RunnerOf(int replica) {
  return [self = shared_from_this(), replica](Task task) { self->Add(replica, std::move(task)); };
}

void Turns::Add(int replica, Task task) {
  std::vector<int> woken;
  {
    mutex_lock lock(mu_);
    TasksOf(replica).push_back(std::move(task));
    if (lanes_[replica % Count()].has_thread) return;
    woken = Wake();
  }
  Start(woken);
}

void Turns::Start(const std::vector<int>& lanes) {
  for (const int lane : lanes) {
    pool_([self = shared_from_this(), lane] { self->Run(lane); });
  }
}

int Turns::Pausing(int lane) {
  mutex_lock lock(mu_);
  const int replica = lanes_[lane].active;
  return TasksOf(replica).empty() ? replica : -1;
}

void Turns::Run(int lane) {
  for (;;) {
    const int pausing = Pausing(lane);
    if (pausing >= 0) pause_(pausing);
    Task task;
    std::vector<int> woken;
    {
      mutex_lock lock(mu_);
      Lane& own = lanes_[lane];
      const int before = own.active;
      const int next = Next(lane);
      own.has_thread = next >= 0;
      if (own.has_thread) {
        own.active = next;
        std::deque<Task>& tasks = TasksOf(next);
        task = std::move(tasks.front());
        tasks.pop_front();
      }
      if (next != before) woken = Wake();
    }
    Start(woken);
    if (task == nullptr) return;
    task();
  }
}

int Turns::Next(int lane) {
  if (lanes_[lane].has_thread && !TasksOf(lanes_[lane].active).empty()) return lanes_[lane].active;
  const auto& tasks = lanes_[lane].tasks;
  const auto found = std::find_if(tasks.begin(), tasks.end(),
                                  [](const std::deque<Task>& own) { return !own.empty(); });
  if (found == tasks.end()) return -1;
  const int replica = static_cast<int>(found - tasks.begin()) * Count() + lane;
  // The lane with the lowest replica that runs never waits, so one always goes on.
  const bool may_begin = std::all_of(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
    return !other.has_thread || &other == &lanes_[lane] || other.active + Count() >= replica;
  });
  return may_begin ? replica : -1;
}

std::vector<int> Turns::Wake() {
  std::vector<int> woken;
  for (int lane = 0; lane < Count(); ++lane) {
    if (lanes_[lane].has_thread) continue;
    const int next = Next(lane);
    if (next < 0) continue;
    lanes_[lane].has_thread = true;
    lanes_[lane].active = next;
    woken.push_back(lane);
  }
  return woken;
}

}  // namespace tensorflow_ipu
