#include "engine/interrupts.h"

#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <cerrno>

#include "engine/interpreter.h"
#include "engine/running_launches.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"

// Written by Python's main thread: whether it is in a call of TensorFlow. A signal that comes then
// is kept until the thread takes it.
extern "C" {
__attribute__((visibility("default"))) std::atomic<int> tfipu_main_thread_waits{0};
__attribute__((visibility("default"))) std::atomic<int> tfipu_interrupt_kept{0};
}

namespace tensorflow_ipu {
namespace {

// A launch may begin after the signal: while its program is compiled it is not among those that
// run.
constexpr int64_t kPollMicroseconds = 50 * 1000;

std::atomic<InterruptPolicy> may_stop{nullptr};
// A handler of signals may use little: semaphores, atomics, and what does not change.
sem_t arrived;
struct sigaction previous;

void OnInterrupt(int signal, siginfo_t* info, void* context) {
  if (tfipu_main_thread_waits) {
    tfipu_interrupt_kept = 1;
    const int error = errno;
    sem_post(&arrived);
    errno = error;
  } else if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

void Watch() {
  while (true) {
    while (sem_wait(&arrived) != 0) {
    }
    if (Interpreter::has_ended() || !may_stop.load()()) continue;
    while (tfipu_interrupt_kept) {
      RunningLaunches::StopUnattended(tensorflow::errors::Cancelled("Interrupted by a signal."));
      tensorflow::Env::Default()->SleepForMicroseconds(kPollMicroseconds);
    }
  }
}

void StartWatching() {
  sem_init(&arrived, 0, 0);
  tensorflow::Env::Default()->SchedClosure(Watch);
}

bool IsFunction(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == OnInterrupt;
}

}  // namespace

void SetInterruptPolicy(InterruptPolicy policy) { may_stop = policy; }

void WatchInterrupts() {
  struct sigaction current;
  sigaction(SIGINT, nullptr, &current);
  if (may_stop.load() == nullptr || IsOurs(current) || !IsFunction(current)) return;
  static tensorflow::mutex mu(tensorflow::LINKER_INITIALIZED);
  tensorflow::mutex_lock lock(mu);
  static const bool watching = (StartWatching(), true);
  (void)watching;
  sigaction(SIGINT, nullptr, &current);
  if (IsOurs(current)) return;
  // Stays: it only passes signals on. Python puts its own there again when it is told to handle
  // the signal in another way.
  previous = current;
  struct sigaction ours = current;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = OnInterrupt;
  sigaction(SIGINT, &ours, nullptr);
}

}  // namespace tensorflow_ipu
