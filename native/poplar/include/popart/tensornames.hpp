// Names of tensors that stand for others.
#ifndef popart_tensornames_hpp
#define popart_tensornames_hpp

#include <popart/names.hpp>

namespace popart {

constexpr const char *reservedGradientPrefix() { return "Gradient___"; }
constexpr const char *reservedAccumPrefix() { return "Accum___"; }
constexpr const char *reservedAccl1Prefix() { return "Accl1___"; }
constexpr const char *reservedAccl2Prefix() { return "Accl2___"; }
constexpr const char *reservedStepPrefix() { return "Step___"; }
constexpr const char *reservedRestoredPrefix() { return "Restored___"; }
constexpr const char *reservedRandomSeedPrefix() { return "RandomSeed___"; }
constexpr const char *reservedUpdatedVarPrefix() { return "UpdatedVar___"; }

/// The id of the gradient of a tensor.
inline TensorId getGradId(const TensorId &id) { return reservedGradientPrefix() + id; }

/// The id of the tensor that a gradient is of.
TensorId getNonGradId(const TensorId &id);

}  // namespace popart

#endif  // popart_tensornames_hpp
