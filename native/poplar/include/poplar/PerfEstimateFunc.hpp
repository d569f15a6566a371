// What a vertex costs.
#ifndef poplar_PerfEstimateFunc_hpp
#define poplar_PerfEstimateFunc_hpp

#include <poplar/VertexIntrospector.hpp>

#include <cstdint>
#include <functional>

namespace poplar {

class Target;

/// Cycles of one run on one worker, and floating-point operations.
struct VertexPerfEstimate {
  std::uint64_t cycles;
  std::uint64_t flops;
  VertexPerfEstimate(std::uint64_t cycles = 0, std::uint64_t flops = 0)
      : cycles(cycles), flops(flops) {}
};

using PerfEstimateFunc =
    std::function<VertexPerfEstimate(const VertexIntrospector &vertex, const Target &target)>;
using CycleEstimateFunc =
    std::function<std::uint64_t(const VertexIntrospector &vertex, const Target &target)>;

}  // namespace poplar

#endif  // poplar_PerfEstimateFunc_hpp
