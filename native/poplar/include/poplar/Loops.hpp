// Loops of codelets.
#ifndef poplar_Loops_hpp
#define poplar_Loops_hpp

#include <poplar/Vertex.hpp>

namespace poplar {

/// Calls `body(i)` for i in [0, count).
template <typename Body>
inline void loopFor(rptsize_t count, Body body) {
  for (rptsize_t i = 0; i < count; ++i) body(i);
}

}  // namespace poplar

#endif  // poplar_Loops_hpp
