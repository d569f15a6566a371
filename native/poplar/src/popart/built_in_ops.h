// Ops that PopART brings, as patterns see them.
#ifndef TENSORFLOW_IPU_POPART_BUILT_IN_OPS_H_
#define TENSORFLOW_IPU_POPART_BUILT_IN_OPS_H_

#include <memory>

#include "popart/op.hpp"

namespace popart {

// The op of an identifier, of the class that its type has; null for domains of users.
std::unique_ptr<Op> MakeBuiltIn(const OperatorIdentifier& opid, const Op::Settings& settings);

// Whether the front end computes an op, rather than the lowering of a library.
bool IsBuiltIn(const Op& op);

}  // namespace popart

#endif  // TENSORFLOW_IPU_POPART_BUILT_IN_OPS_H_
