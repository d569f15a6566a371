// What the library itself asks of its registries.
#ifndef TENSORFLOW_IPU_POPART_REGISTRIES_H_
#define TENSORFLOW_IPU_POPART_REGISTRIES_H_

#include <functional>

#include "popart/operatoridentifier.hpp"
#include "popart/shapeinference.hpp"

namespace popart {

// Calls `watcher` after each registration of an op or a lowering: while a library is loaded.
void WatchRegistrations(std::function<void()> watcher);

// The function of the highest version that is not above the opset's; null if there is none.
const ShapeInferenceFunction* FindShapeInference(const OpDomain& domain, const OpType& type,
                                                 int opset);

}  // namespace popart

#endif  // TENSORFLOW_IPU_POPART_REGISTRIES_H_
