// The thread that does half of the large products of programs of one thread.
#ifndef TENSORFLOW_IPU_ENGINE_SECOND_THREAD_H_
#define TENSORFLOW_IPU_ENGINE_SECOND_THREAD_H_

#include <functional>

namespace tensorflow_ipu {

// Runs two functions on two threads, or one after the other if the second thread is busy.
void RunBoth(const std::function<void()>& first, const std::function<void()>& second);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_SECOND_THREAD_H_
