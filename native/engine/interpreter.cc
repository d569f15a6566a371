#include "engine/interpreter.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "tensorflow/core/platform/env.h"

namespace tensorflow_ipu {
namespace {

// How long a signal waits for its handler at most.
constexpr int64_t kPollMicroseconds = 50 * 1000;
constexpr int64_t kMicrosecondsPerHour = int64_t{3600} * 1000 * 1000;

InterpreterFunctions python;
std::atomic<bool> connected{false};
std::atomic<bool> ended{false};
std::atomic<bool> forked{false};
std::atomic<int64_t> main_thread{-1};
thread_local int64_t this_thread = syscall(SYS_gettid);

// What a handler of a signal has raised. Only the main thread uses it.
struct Raised {
  void* type = nullptr;
  void* value = nullptr;
  void* traceback = nullptr;
} raised;

// Runs the handlers of the signals that have come; returns whether one raised an exception.
bool HandleSignals() {
  const int state = python.ensure_gil();
  const bool has_raised = python.check_signals() != 0;
  if (has_raised && raised.type == nullptr) {
    python.fetch_error(&raised.type, &raised.value, &raised.traceback);
  } else if (has_raised) {
    python.clear_error();  // one is enough
  }
  python.release_gil(state);
  return has_raised;
}

}  // namespace

void Interpreter::Connect(const InterpreterFunctions& functions, int64_t thread) {
  python = functions;
  main_thread = thread;
  connected = true;
}

void Interpreter::Fork(bool used) {
  main_thread = this_thread = syscall(SYS_gettid);
  if (used) forked = true;
}

int64_t Interpreter::ThisThread() { return this_thread; }

bool Interpreter::OnMainThread() { return ThisThread() == main_thread; }

bool Interpreter::OnPythonThread() { return connected && python.this_thread() != nullptr; }

void Interpreter::Raise() {
  if (raised.type == nullptr || !OnMainThread()) return;
  const Raised now = raised;
  raised = Raised();
  python.restore_error(now.type, now.value, now.traceback);
}

void Interpreter::End() { ended = true; }

bool Interpreter::has_ended() { return ended; }

bool WaitInPython(absl::Notification* done, const std::function<void()>& stop) {
  if (!Interpreter::OnMainThread()) {
    done->WaitForNotification();
    while (ended && Interpreter::OnPythonThread()) {
      tensorflow::Env::Default()->SleepForMicroseconds(kMicrosecondsPerHour);
    }
    return false;
  }
  bool stopped = false;
  while (!done->WaitForNotificationWithTimeout(absl::Microseconds(kPollMicroseconds))) {
    if (HandleSignals() && !stopped) {
      stopped = true;
      stop();
    }
  }
  return stopped;
}

bool IsForked() { return forked; }

}  // namespace tensorflow_ipu
