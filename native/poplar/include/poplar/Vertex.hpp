// Classes of vertices.
#ifndef poplar_Vertex_hpp
#define poplar_Vertex_hpp

#include <poplar/FieldTypes.hpp>
#include <poplar/HalfFloat.hpp>
#include <poplar/QuarterFloat.hpp>
#include <poplar/VectorTypes.hpp>

#include <cstddef>
#include <cstdint>

namespace poplar {

using rptsize_t = std::uint32_t;

/// A vertex whose `compute()` runs on one worker.
class Vertex {};

/// A vertex whose `compute(workerId)` runs once for each worker, one after the other.
class MultiVertex {
 public:
  static constexpr unsigned numWorkers() { return 6; }
};

/// A vertex whose `compute()` runs on the supervisor.
class SupervisorVertex {};

template <bool IsSupervisor>
class SupervisorVertexIf : public SupervisorVertex {};
template <>
class SupervisorVertexIf<false> : public Vertex {};

}  // namespace poplar

#endif  // poplar_Vertex_hpp
