// Moves elements between memories.
#ifndef TENSORFLOW_IPU_POPLAR_COPY_H_
#define TENSORFLOW_IPU_POPLAR_COPY_H_

#include <cstdint>
#include <vector>

namespace poplar::core {

// A place is a region and an offset of bytes in it. Region 0 is the memory of the replica; region
// 1 + i is the memory of external variable i, which belongs to the caller.
constexpr int kRegionShift = 48;
constexpr int64_t kOffsetMask = (int64_t{1} << kRegionShift) - 1;

// Memory in which places are looked up: a pointer for each region.
struct AddressSpace {
  char* const* regions;

  char* At(int64_t place) const { return regions[place >> kRegionShift] + (place & kOffsetMask); }
};

// Elements of one size, from places at equal distances to others. All in bytes.
struct Segment {
  int64_t source, target;
  uint64_t count;
  uint32_t size;
  int64_t source_step, target_step;
};

using CopyBlock = std::vector<Segment>;

uint64_t BytesOf(const CopyBlock& block);

// Moves the elements of a block from one memory to another: on one thread, and on all cores if that
// is worth it.
void Apply(const CopyBlock& block, AddressSpace source, AddressSpace target);
void ApplyInParallel(const CopyBlock& block, AddressSpace source, AddressSpace target);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_COPY_H_
