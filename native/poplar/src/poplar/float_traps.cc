#include "float_traps.h"

#include <cfenv>

#include "registers.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace poplar::core {

#if defined(__x86_64__)

// The bits of MXCSR; the functions of <cfenv> also save the state of the x87, which is slow.
void ClearFloatStatus() { _mm_setcsr(_mm_getcsr() & ~0x3fu); }

unsigned FloatStatus() {
  const unsigned bits = _mm_getcsr();
  return (bits & 0x1 ? kTrapInvalid : 0) | (bits & 0x4 ? kTrapDivision : 0) |
         (bits & 0x8 ? kTrapOverflow : 0);
}

void RaiseFloatStatus(unsigned traps) {
  _mm_setcsr(_mm_getcsr() | (traps & kTrapInvalid ? 0x1u : 0) | (traps & kTrapDivision ? 0x4u : 0) |
             (traps & kTrapOverflow ? 0x8u : 0));
}

#else

void ClearFloatStatus() { std::feclearexcept(FE_ALL_EXCEPT); }

unsigned FloatStatus() {
  const int bits = std::fetestexcept(FE_ALL_EXCEPT);
  return (bits & FE_INVALID ? kTrapInvalid : 0) | (bits & FE_DIVBYZERO ? kTrapDivision : 0) |
         (bits & FE_OVERFLOW ? kTrapOverflow : 0);
}

void RaiseFloatStatus(unsigned traps) {
  std::feraiseexcept((traps & kTrapInvalid ? FE_INVALID : 0) |
                     (traps & kTrapDivision ? FE_DIVBYZERO : 0) |
                     (traps & kTrapOverflow ? FE_OVERFLOW : 0));
}

#endif

std::string TrapText(unsigned traps) {
  std::string text;
  const auto add = [&](unsigned bit, const char* name) {
    if (traps & bit) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(kTrapInvalid, "an invalid operation");
  add(kTrapDivision, "a division by zero");
  add(kTrapOverflow, "an overflow");
  return text;
}

}  // namespace poplar::core
