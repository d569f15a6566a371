// Programs of small ops, which run on one thread.
#ifndef TENSORFLOW_IPU_ENGINE_ONE_THREAD_H_
#define TENSORFLOW_IPU_ENGINE_ONE_THREAD_H_

#include "engine/program.h"

namespace tensorflow_ipu {

// The executor type of these programs, for the instantiation of a function. It is TensorFlow's
// executor with a CPU device that has no thread pool: where a kernel would split its work, one
// thread does all parts. Kernels still see as many threads as there are, so they split their work
// as ever, and results have the same bits. Large matrix products have a second thread
// (engine/split_products.h).
inline constexpr char kOneThreadExecutor[] = "IPU_ONE_THREAD";

// Whether the compiler has marked the program, and it has one replica: replicas run at the same
// time, and share the cores in another way.
bool RunsOnOneThread(const Program& program);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_ONE_THREAD_H_
