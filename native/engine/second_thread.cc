#include "engine/second_thread.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/notification.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tensorflow_ipu {
namespace {

using Clock = std::chrono::steady_clock;

// Steps of small models take about as long, so the thread is awake from one product to the next.
constexpr std::chrono::microseconds kAwake{200};
// Most that `Finish` waits. The caller then sleeps until the end of the task.
constexpr std::chrono::microseconds kPatience{200};

// The number of the task that this thread offered last, times `kStates`.
thread_local uint64_t own_task = 0;

// A thread with room for one task. Tasks take some ten microseconds, and so does waking a thread.
// So this one looks for the next task for a while before it sleeps, and a task that it has not
// begun with can be taken back.
class SecondThread {
 public:
  // That of the process.
  static SecondThread& Get();

  // Hands over `task` if there is no other. Returns whether. The caller then does its own part, and
  // calls `Finish`.
  bool Offer(const std::function<void()>& task);

  // Does the task that the calling thread offered last if the second thread has not begun with it.
  // Otherwise waits for the end of the task, but not for long.
  void Finish();

 private:
  // Of the last task, in the two lowest bits of `slot_`. Its number is in the others.
  enum State : uint64_t { kDone, kChanging, kOffered, kRunning };
  static constexpr uint64_t kStates = 4;

  SecondThread();
  void Run();

  tensorflow::thread::ThreadPool pool_;
  std::atomic<uint64_t> slot_{kDone};
  std::atomic<bool> awake_{false};
  std::function<void()> task_;
};

SecondThread& SecondThread::Get() {
  static SecondThread* const thread = new SecondThread;
  return *thread;
}

// One of TensorFlow's threads: they have a mode of the processor for denormal numbers.
SecondThread::SecondThread()
    : pool_(tensorflow::Env::Default(), tensorflow::ThreadOptions(), "ipu_second_thread",
            /*num_threads=*/1, /*low_latency_hint=*/false) {}

bool SecondThread::Offer(const std::function<void()>& task) {
  uint64_t slot = slot_;
  if (slot % kStates != kDone) return false;
  const uint64_t next = slot + kStates;
  if (!slot_.compare_exchange_strong(slot, next + kChanging)) return false;
  task_ = task;
  own_task = next;
  slot_ = next + kOffered;
  if (!awake_.exchange(true)) pool_.Schedule([this] { Run(); });
  return true;
}

void SecondThread::Finish() {
  uint64_t offered = own_task + kOffered;
  if (slot_.compare_exchange_strong(offered, own_task + kChanging)) {
    const std::function<void()> task = std::move(task_);
    slot_ = own_task + kDone;
    task();
    return;
  }
  const uint64_t running = own_task + kRunning;
  if (slot_ != running) return;
  const Clock::time_point end = Clock::now() + kPatience;
  while (slot_ == running && Clock::now() < end) std::this_thread::yield();
}

void SecondThread::Run() {
  Clock::time_point end = Clock::now() + kAwake;
  while (true) {
    uint64_t slot = slot_;
    const uint64_t number = slot - slot % kStates;
    if (slot == number + kOffered && slot_.compare_exchange_strong(slot, number + kRunning)) {
      const std::function<void()> task = std::move(task_);
      task();
      slot_ = number + kDone;
      end = Clock::now() + kAwake;
    } else if (Clock::now() < end) {
      std::this_thread::yield();
    } else {
      awake_ = false;
      // A task may have come just before, from a thread that took this one to be awake.
      if (slot_ % kStates != kOffered || awake_.exchange(true)) return;
    }
  }
}

}  // namespace

void RunBoth(const std::function<void()>& first, const std::function<void()>& second) {
  tensorflow::Notification done;
  const auto task = [&] {
    second();
    done.Notify();
  };
  if (!SecondThread::Get().Offer(task)) {
    first();
    second();
    return;
  }
  first();
  SecondThread::Get().Finish();
  done.WaitForNotification();
}

}  // namespace tensorflow_ipu
