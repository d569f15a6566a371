// Elements of feeds that come from arrays of the host.
#ifndef TENSORFLOW_IPU_ENGINE_FEEDS_HOST_ARRAYS_H_
#define TENSORFLOW_IPU_ENGINE_FEEDS_HOST_ARRAYS_H_

#include <cstdint>

#include "engine/feeds/dataset_reader.h"
#include "engine/feeds/infeed.h"

namespace tensorflow_ipu {

// Element `index` of the arrays, of which each has one tensor of an element after the other.
//
// It is a copy. A tensor that shares the memory would have to be aligned, and a program may keep it
// as the value of a variable while the user goes on to change the array.
Element CopyElement(const InfeedOptions& options, const void* const* arrays, int64_t index);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FEEDS_HOST_ARRAYS_H_
