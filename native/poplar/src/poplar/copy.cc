#include "copy.h"

#include <cstring>

#include "parallel_for.h"

namespace poplar::core {
namespace {

// Bytes that are worth a thread.
constexpr uint64_t kBytesOfAThread = 1 << 18;

template <typename T>
void CopyElements(const Segment& s, const char* source, char* target) {
  for (uint64_t i = 0; i < s.count; ++i) {
    T element;
    std::memcpy(&element, source, sizeof element);
    std::memcpy(target, &element, sizeof element);
    source += s.source_step;
    target += s.target_step;
  }
}

void ApplySegment(const Segment& s, AddressSpace sources, AddressSpace targets) {
  const char* const source = sources.At(s.source);
  char* const target = targets.At(s.target);
  if (s.count == 1) {
    std::memcpy(target, source, s.size);
    return;
  }
  switch (s.size) {
    case 1:
      return CopyElements<uint8_t>(s, source, target);
    case 2:
      return CopyElements<uint16_t>(s, source, target);
    case 4:
      return CopyElements<uint32_t>(s, source, target);
    case 8:
      return CopyElements<uint64_t>(s, source, target);
    default:
      for (uint64_t i = 0; i < s.count; ++i) {
        std::memcpy(target + i * s.target_step, source + i * s.source_step, s.size);
      }
  }
}

}  // namespace

uint64_t BytesOf(const CopyBlock& block) {
  uint64_t bytes = 0;
  for (const Segment& segment : block) bytes += segment.count * segment.size;
  return bytes;
}

void Apply(const CopyBlock& block, AddressSpace source, AddressSpace target) {
  for (const Segment& segment : block) ApplySegment(segment, source, target);
}

void ApplyInParallel(const CopyBlock& block, AddressSpace source, AddressSpace target) {
  if (block.size() < 2 || BytesOf(block) < kBytesOfAThread) {
    Apply(block, source, target);
    return;
  }
  ParallelFor(block.size(), 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) ApplySegment(block[i], source, target);
  });
}

}  // namespace poplar::core
