// The floating-point status of a thread.
#ifndef TENSORFLOW_IPU_POPLAR_FLOAT_TRAPS_H_
#define TENSORFLOW_IPU_POPLAR_FLOAT_TRAPS_H_

#include <string>

namespace poplar::core {

// Bits of `registers.h`.
void ClearFloatStatus();
unsigned FloatStatus();
// Adds bits to the status, as if this thread had computed.
void RaiseFloatStatus(unsigned traps);
// "an invalid operation, an overflow".
std::string TrapText(unsigned traps);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_FLOAT_TRAPS_H_
