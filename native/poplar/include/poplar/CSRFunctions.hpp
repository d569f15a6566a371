// Floating-point behavior of tiles.
#ifndef poplar_CSRFunctions_hpp
#define poplar_CSRFunctions_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace poplar {

/// Which conditions stop a program, and how halves round and overflow.
struct FloatingPointBehaviour {
  bool inv, div0, oflo, esr, nanoo;
  FloatingPointBehaviour(bool inv = true, bool div0 = true, bool oflo = true, bool esr = true,
                         bool nanoo = true)
      : inv(inv), div0(div0), oflo(oflo), esr(esr), nanoo(nanoo) {}
  FloatingPointBehaviour operator!() const {
    return FloatingPointBehaviour(!inv, !div0, !oflo, !esr, !nanoo);
  }
};
inline FloatingPointBehaviour operator&(const FloatingPointBehaviour &a,
                                        const FloatingPointBehaviour &b) {
  return FloatingPointBehaviour(a.inv && b.inv, a.div0 && b.div0, a.oflo && b.oflo, a.esr && b.esr,
                                a.nanoo && b.nanoo);
}
inline FloatingPointBehaviour operator|(const FloatingPointBehaviour &a,
                                        const FloatingPointBehaviour &b) {
  return FloatingPointBehaviour(a.inv || b.inv, a.div0 || b.div0, a.oflo || b.oflo, a.esr || b.esr,
                                a.nanoo || b.nanoo);
}

void setFloatingPointBehaviour(Graph &graph, program::Sequence &program,
                               const FloatingPointBehaviour &behaviour,
                               const DebugContext &debugContext = {});
void setStochasticRounding(Graph &graph, program::Sequence &program, bool enable,
                           const DebugContext &debugContext = {});

}  // namespace poplar

#endif  // poplar_CSRFunctions_hpp
