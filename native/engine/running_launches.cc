#include "engine/running_launches.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <unordered_map>
#include <vector>

#include "engine/interpreter.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::mutex_lock;
using tensorflow::Status;

struct Entry {
  StoppableLaunch* launch;
  Waiter waiter;
  int64_t thread;
};

struct State {
  tensorflow::mutex mu;
  tensorflow::condition_variable removed;
  std::unordered_map<uint64_t, Entry> launches TF_GUARDED_BY(mu);
  bool ending TF_GUARDED_BY(mu) = false;
};

State& Launches() {
  static auto* state = new State;
  return *state;
}

// Stops the launches that `chosen` is true of. Without the lock: they may end in this.
void StopIf(const std::function<bool(uint64_t, const Entry&)>& chosen, const Status& reason) {
  State& state = Launches();
  std::vector<StoppableLaunch*> pinned;
  {
    mutex_lock lock(state.mu);
    for (const auto& [id, entry] : state.launches) {
      if (chosen(id, entry) && entry.launch->Pin()) pinned.push_back(entry.launch);
    }
  }
  for (StoppableLaunch* launch : pinned) {
    launch->Stop(reason);
    launch->Unpin();
  }
}

}  // namespace

bool RunningLaunches::Add(uint64_t id, Waiter waiter, StoppableLaunch* launch) {
  State& state = Launches();
  mutex_lock lock(state.mu);
  if (state.ending) return false;
  state.launches[id] = {launch, waiter, Interpreter::ThisThread()};
  return true;
}

void RunningLaunches::Remove(uint64_t id) {
  State& state = Launches();
  mutex_lock lock(state.mu);
  state.launches.erase(id);
  state.removed.notify_all();
}

void RunningLaunches::Stop(uint64_t id, const Status& reason) {
  StopIf([id](uint64_t other, const Entry&) { return other == id; }, reason);
}

void RunningLaunches::StopThread(int64_t thread, const Status& reason) {
  StopIf([thread](uint64_t, const Entry& entry) { return entry.thread == thread; }, reason);
}

void RunningLaunches::StopUnattended(const Status& reason) {
  StopIf([](uint64_t, const Entry& entry) { return entry.waiter == Waiter::kTensorFlow; }, reason);
}

void RunningLaunches::ShutDown(int64_t microseconds) {
  State& state = Launches();
  {
    mutex_lock lock(state.mu);
    state.ending = true;
  }
  StopIf([](uint64_t, const Entry&) { return true; },
         tensorflow::errors::Cancelled("The process is ending."));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  mutex_lock lock(state.mu);
  while (!state.launches.empty()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return;
    state.removed.wait_for(lock, left);
  }
}

int RunningLaunches::count() {
  State& state = Launches();
  mutex_lock lock(state.mu);
  return static_cast<int>(
      std::count_if(state.launches.begin(), state.launches.end(),
                    [](const auto& entry) { return entry.second.waiter != Waiter::kEngine; }));
}

}  // namespace tensorflow_ipu
