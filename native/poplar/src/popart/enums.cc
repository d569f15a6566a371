// Values of enumerations as text.
#include "popart/op.hpp"
#include "popart/popx/inputcreatortype.hpp"
#include "popart/tensor.hpp"
#include "popart/tensornames.hpp"

namespace popart {
namespace {

template <typename E, size_t N>
std::ostream& Print(std::ostream& os, E value, const char* const (&names)[N]) {
  const size_t position = static_cast<size_t>(value);
  return os << (position < N ? names[position] : "?");
}

}  // namespace

const OpDomain Domain::ai_onnx = "ai.onnx";
const OpDomain Domain::ai_onnx_ml = "ai.onnx.ml";
const OpDomain Domain::ai_graphcore = "ai.graphcore";

std::ostream& operator<<(std::ostream& os, const OperatorIdentifier& identifier) {
  return os << identifier.domain << '.' << identifier.type << ':' << identifier.version;
}
std::ostream& operator<<(std::ostream& os, const RecomputeType& type) {
  constexpr const char* kNames[] = {"Undefined", "Checkpoint", "Recompute", "Recomputed"};
  return Print(os, type, kNames);
}
std::ostream& operator<<(std::ostream& os, const ExecutionContext& context) {
  constexpr const char* kNames[] = {"Normal",
                                    "AccumulateOuterFragment",
                                    "WeightsFromHostFragment",
                                    "WeightsToHostFragment",
                                    "OptimizerFromHostFragment",
                                    "Subgraph"};
  return Print(os, context, kNames);
}
std::ostream& operator<<(std::ostream& os, const ReductionType& type) {
  constexpr const char* kNames[] = {"Sum", "Mean", "NoReduction", "N"};
  return Print(os, type, kNames);
}
std::ostream& operator<<(std::ostream& os, const GradOpInType& type) {
  constexpr const char* kNames[] = {"In", "Out", "GradOut"};
  return Print(os, type, kNames);
}
std::ostream& operator<<(std::ostream& os, const TensorType& type) {
  constexpr const char* kNames[] = {"ActGrad", "Const", "Stream", "Unknown", "Variable", "N"};
  return Print(os, type, kNames);
}
std::ostream& operator<<(std::ostream& os, const TensorStorage& storage) {
  constexpr const char* kNames[] = {"OnChip", "OffChip"};
  return Print(os, storage, kNames);
}
std::ostream& operator<<(std::ostream& os, const TileSet& tileSet) {
  constexpr const char* kNames[] = {"Compute", "IO", "Undefined", "N"};
  return Print(os, tileSet, kNames);
}
std::ostream& operator<<(std::ostream& os, const ReplicatedTensorSharding& sharding) {
  constexpr const char* kNames[] = {"Off", "On"};
  return Print(os, sharding, kNames);
}
std::ostream& operator<<(std::ostream& os, const TensorLocation& location) {
  return os << "(" << location.storage << ", " << location.loadTileSet << ", "
            << location.storageTileSet << ", " << location.replicatedTensorSharding << ")";
}
std::ostream& operator<<(std::ostream& os, const StochasticRoundingMethod& method) {
  return os << (method == StochasticRoundingMethod::DifferingSeeds ? "DifferingSeeds"
                                                                   : "IdenticalSeeds");
}
std::ostream& popx::operator<<(std::ostream& os, const popx::InputCreatorType& type) {
  constexpr const char* kNames[] = {"CanCreate", "CanUnwind",   "CanCreateOrUnwind",
                                    "Deadend",   "CanDelegate", "CanDelegateOrUnwind"};
  return Print(os, type, kNames);
}

TensorId getNonGradId(const TensorId& id) {
  const TensorId prefix = reservedGradientPrefix();
  return id.compare(0, prefix.size(), prefix) == 0 ? id.substr(prefix.size()) : id;
}

}  // namespace popart
