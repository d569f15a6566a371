// Layouts of vectors, as estimators of costs name them.
#ifndef poplar_VectorLayout_hpp
#define poplar_VectorLayout_hpp

#include <ostream>
#include <string>

namespace poplar {
namespace layout {

enum class Vector { NotAVector, Span, ShortSpan, OnePtr, ScaledPtr32, ScaledPtr64, ScaledPtr128 };
enum class VectorList {
  NotAVector,
  OnePtr,
  ScaledPtr32,
  ScaledPtr64,
  ScaledPtr128,
  DeltaN,
  DeltaNElements
};

std::string to_string(Vector layout);
std::string to_string(VectorList layout);
std::ostream &operator<<(std::ostream &os, Vector layout);
std::ostream &operator<<(std::ostream &os, VectorList layout);

}  // namespace layout
}  // namespace poplar

#endif  // poplar_VectorLayout_hpp
