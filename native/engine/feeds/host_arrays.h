// Elements of feeds that come from arrays of the host.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_HOST_ARRAYS_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_HOST_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "engine/feeds/dataset_reader.h"
#include "engine/feeds/infeed.h"

namespace tensorflow_ipu {

// Returns `count` elements, whose tensors are rows of the arrays: one array for each tensor of an
// element. Row e of each is for element e; or `rows` has the row for each tensor and element.
// Tensors that are the same row share memory.
//
// They are copies. A tensor that shares the memory of the array would have to be aligned, and a
// program may keep it as the value of a variable while the user goes on to change the array.
std::vector<Element> CopyElements(const InfeedOptions& options, int64_t count,
                                  const void* const* arrays, const int64_t* rows);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_HOST_ARRAYS_H_
