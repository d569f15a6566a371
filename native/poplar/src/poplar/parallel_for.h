// Work on all cores.
#ifndef TENSORFLOW_IPU_POPLAR_PARALLEL_FOR_H_
#define TENSORFLOW_IPU_POPLAR_PARALLEL_FOR_H_

#include <cstddef>
#include <functional>

namespace poplar::core {

// Calls `work(begin, end)` for parts of [0, count) on all cores, and waits. Up to `grain` elements
// are one part. An exception of a part is thrown again, and the floating-point status of all parts
// becomes that of the caller.
void ParallelFor(size_t count, size_t grain, const std::function<void(size_t, size_t)>& work);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_PARALLEL_FOR_H_
