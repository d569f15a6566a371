// What the engine asks of the Python interpreter that uses it.
#ifndef TENSORFLOW_IPU_ENGINE_INTERPRETER_H_
#define TENSORFLOW_IPU_ENGINE_INTERPRETER_H_

#include <cstdint>
#include <functional>

#include "absl/synchronization/notification.h"

namespace tensorflow_ipu {

// Functions of Python's C API. Python hands them over: this library is not linked with one. The
// order is that of tensorflow_ipu/runtime/interpreter.py.
struct InterpreterFunctions {
  int (*ensure_gil)();
  void (*release_gil)(int);
  void* (*this_thread)();
  int (*check_signals)();
  void (*fetch_error)(void**, void**, void**);
  void (*restore_error)(void*, void*, void*);
  void (*clear_error)();
};

// The interpreter. Until Connect, nothing is known of one, and all questions have the answer no.
class Interpreter {
 public:
  // `main_thread` is the system's number of the thread that runs handlers of signals.
  static void Connect(const InterpreterFunctions& functions, int64_t main_thread);
  // This process is a fork, and this its only thread. `used`: whether the other process used the
  // engine.
  static void Fork(bool used);

  static bool OnMainThread();
  // Whether this thread has run Python.
  static bool OnPythonThread();
  // The system's number of this thread.
  static int64_t ThisThread();

  // Raises the exception that ended the last wait, if one did. The caller, which is Python, holds
  // the interpreter's lock.
  static void Raise();

  // The interpreter is about to go.
  static void End();
  static bool has_ended();
};

// Waits for `done`, on whatever thread a kernel runs.
//
// The interpreter's main thread runs the program's handlers of signals meanwhile, which it cannot
// while it is in C++. When one raises an exception, `stop` is called, which has to bring `done`
// about, and true is returned; the exception is kept for Raise.
//
// Other threads of Python do not come back once the interpreter ends: it would end them as soon as
// they ask for its lock, in the middle of C++ that cannot be left in this way.
bool WaitInPython(absl::Notification* done, const std::function<void()>& stop);

// Whether this process is a fork of one that used the engine. No threads but one are here, and
// what the others held is locked for ever: nothing may be waited for.
bool IsForked();

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_INTERPRETER_H_
