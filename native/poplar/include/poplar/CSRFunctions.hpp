// The floating-point register.
#ifndef poplar_CSRFunctions_hpp
#define poplar_CSRFunctions_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace poplar {

/// Traps and rounding: on invalid operations, on divisions by zero, on overflows; stochastic
/// rounding of halves; NaN for halves that overflow.
struct FloatingPointBehaviour {
  bool inv = true;
  bool div0 = true;
  bool oflo = true;
  bool esr = true;
  bool nanoo = true;

  FloatingPointBehaviour() {}
  FloatingPointBehaviour(bool inv, bool div0, bool oflo, bool esr, bool nanoo)
      : inv(inv), div0(div0), oflo(oflo), esr(esr), nanoo(nanoo) {}

  FloatingPointBehaviour operator!() const {
    return FloatingPointBehaviour(!inv, !div0, !oflo, !esr, !nanoo);
  }
  FloatingPointBehaviour operator&(const FloatingPointBehaviour &other) const {
    return FloatingPointBehaviour(inv && other.inv, div0 && other.div0, oflo && other.oflo,
                                  esr && other.esr, nanoo && other.nanoo);
  }
  FloatingPointBehaviour operator|(const FloatingPointBehaviour &other) const {
    return FloatingPointBehaviour(inv || other.inv, div0 || other.div0, oflo || other.oflo,
                                  esr || other.esr, nanoo || other.nanoo);
  }
};

/// A trap is an application_runtime_error that names the vertex. Values are rounded to nearest,
/// also with stochastic rounding, except where a library says otherwise.
void setFloatingPointBehaviour(Graph &graph, program::Sequence &prog,
                               const FloatingPointBehaviour &behaviour,
                               const DebugContext &debugContext = {});
/// Sets what `getAndModifyFloatingPointBehaviour` returned.
void setFloatingPointBehaviour(Graph &graph, program::Sequence &prog, const Tensor &behaviour,
                               const DebugContext &debugContext = {});
/// Clears and sets the members that are true. Returns the register before.
Tensor getAndModifyFloatingPointBehaviour(Graph &graph, program::Sequence &prog,
                                          const FloatingPointBehaviour &clear,
                                          const FloatingPointBehaviour &set,
                                          const DebugContext &debugContext = {});
void setStochasticRounding(Graph &graph, program::Sequence &prog, bool enable,
                           const DebugContext &debugContext = {});

}  // namespace poplar

#endif  // poplar_CSRFunctions_hpp
