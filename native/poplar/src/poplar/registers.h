// The bits of the floating-point register.
#ifndef TENSORFLOW_IPU_POPLAR_REGISTERS_H_
#define TENSORFLOW_IPU_POPLAR_REGISTERS_H_

namespace poplar::core {

constexpr unsigned kTrapInvalid = 1, kTrapDivision = 2, kTrapOverflow = 4;
constexpr unsigned kTraps = kTrapInvalid | kTrapDivision | kTrapOverflow;
constexpr unsigned kStochasticRounding = 8, kNanOnOverflow = 16;

// Bits at the start, as the options of an engine have them.
constexpr unsigned kRegisterAtStart = kNanOnOverflow;

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_REGISTERS_H_
