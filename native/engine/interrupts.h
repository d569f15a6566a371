// Ctrl-C while TensorFlow waits for a launch: in a session, or in a function around the launch.
#ifndef TENSORFLOW_IPU_ENGINE_INTERRUPTS_H_
#define TENSORFLOW_IPU_ENGINE_INTERRUPTS_H_

namespace tensorflow_ipu {

// Says whether Ctrl-C is to stop launches. Called on any thread.
using InterruptPolicy = bool (*)();
void SetInterruptPolicy(InterruptPolicy policy);

// Has Ctrl-C stop the launches that TensorFlow waits for, while Python's main thread is in a call
// of TensorFlow that it has announced (tensorflow_ipu/runtime/interpreter.py). It cannot handle the
// signal there, so it takes it when the call has ended. At all other times whoever handled the
// signal before still does.
//
// To be called before each such launch: Python takes the place of others when a program tells it
// how to handle the signal.
void WatchInterrupts();

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_INTERRUPTS_H_
