#include "popart/op.hpp"

#include <string>
#include <vector>

#include "popart/graph.hpp"
#include "popart/ir.hpp"
#include "popart/tensors.hpp"
#include "serialiser.h"

namespace popart {

bool POpCmp::operator()(const Op* a, const Op* b) const { return a->id < b->id; }

Op::Settings::Settings(Graph& graph, const std::string& name) : graph(graph), name(name) {}
Op::Settings::Settings(Graph& graph, const std::string& name, const Scope& scope)
    : graph(graph), name(name), scope(scope) {}
Op::Settings::Settings(Graph& graph, const std::string& name, const Scope& scope, uint64_t parentId)
    : graph(graph), name(name), scope(scope), debugInfoId(parentId) {}
Op::Settings::Settings(Graph& graph, const std::string& name, uint64_t parentId)
    : graph(graph), name(name), debugInfoId(parentId) {}
Op::Settings::Settings(const Settings&) = default;
Op::Settings& Op::Settings::operator=(const Settings&) = default;
Op::Settings::~Settings() = default;

Op::Settings Op::Settings::copy(const std::string& newName) const {
  Settings result = *this;
  result.name = newName;
  return result;
}
Ir& Op::Settings::getIr() const { return graph.get().getIr(); }

void Op::Settings::setFromAttributes(const Attributes& attributes) {
  int64_t value = 0;
  if (attributes.hasAttribute(sVirtualGraphAttribute)) {
    attributes.set(value, sVirtualGraphAttribute);
    vgraphId = value;
  }
  if (attributes.hasAttribute(sPipelineStageAttribute)) {
    attributes.set(value, sPipelineStageAttribute);
    pipelineStage = value;
  }
  if (attributes.hasAttribute(sExecutionPhaseAttribute)) {
    attributes.set(value, sExecutionPhaseAttribute);
    executionPhase = value;
  }
  if (attributes.hasAttribute(sRecomputeOutputAttribute)) {
    attributes.set(value, sRecomputeOutputAttribute);
    recomputeType = static_cast<RecomputeType>(value);
  }
  if (attributes.hasAttribute(sTileSetAttribute)) {
    attributes.set(value, sTileSetAttribute);
    tileSet = static_cast<TileSet>(value);
  }
  std::vector<std::string> patterns;
  attributes.setIfPresent(patterns, sExcludePatternsAttribute);
  excludePatterns.insert(patterns.begin(), patterns.end());
}

Op::Op(const OperatorIdentifier& opid, const Op::Settings& settings)
    : input(new TensorIndexMap),
      output(new TensorIndexMap),
      opid(opid),
      settings(settings),
      debugInfo(DebugContext(settings.name), *this) {}
Op::Op(const Op& op)
    : Vertex(op),
      input(new TensorIndexMap),
      output(new TensorIndexMap),
      opid(op.opid),
      pruneable(op.pruneable),
      settings(op.settings),
      debugInfo(DebugContext(op.settings.name), *this) {}
Op::~Op() = default;

// --- Connections ---

void Op::defaultConnectInTensor(InIndex index, TensorId tensorId) {
  Tensor* tensor = getGraph().getTensors().get(tensorId);
  if (input->hasIndex(index)) {
    throw internal_error("{} already has an input at index {}, so {} cannot be connected to it",
                         debugName(), index, tensorId);
  }
  input->insert(index, tensor);
  tensor->consumers.increment(this);
}
void Op::connectInTensor(InIndex index, TensorId tensorId) {
  defaultConnectInTensor(index, tensorId);
}
void Op::connectInTensor(InIndex index, TensorId tensorId, VGraphId) {
  defaultConnectInTensor(index, tensorId);
}
void Op::connectInTensorLike(const Op*, InIndex index, TensorId tensorId) {
  connectInTensor(index, tensorId);
}
void Op::connectOutTensor(OutIndex index, TensorId tensorId) {
  Tensor* tensor = getGraph().getTensors().get(tensorId);
  output->insert(index, tensor);
  if (tensor->hasProducer()) tensor->resetProducer(nullptr);
  tensor->setProducer(this);
}
void Op::createAndConnectOutTensor(OutIndex index, TensorId tensorId) {
  getGraph().getTensors().addActGrad(tensorId);
  connectOutTensor(index, tensorId);
}
void Op::disconnectInTensor(InIndex index, Tensor* tensor) {
  tensor->consumers.decrement(this);
  input->erase(index);
}
void Op::disconnectInTensor(InIndex index) { disconnectInTensor(index, inTensor(index)); }
void Op::disconnectInTensor(Tensor* tensor) {
  for (const int index : std::vector<int>(input->indices(tensor))) {
    disconnectInTensor(index, tensor);
  }
}
void Op::disconnectOutTensor(Tensor* tensor) {
  for (const int index : std::vector<int>(output->indices(tensor))) output->erase(index);
  if (tensor->getProducerUnsafe() == this) tensor->resetProducer(nullptr);
}
void Op::disconnectAllInputs() {
  for (Tensor* tensor : input->tensors()) {
    if (input->contains(tensor)) disconnectInTensor(tensor);
  }
}
void Op::disconnectAllOutputs() {
  for (Tensor* tensor : output->tensors()) {
    if (output->contains(tensor)) disconnectOutTensor(tensor);
  }
}

namespace {

[[noreturn]] void RefuseIndex(const Op& op, const char* title, int index) {
  throw error("{} has no {} at index {}", op.debugName(), title, index);
}

}  // namespace

Tensor* Op::inTensor(InIndex index) {
  if (!hasInput(index)) RefuseIndex(*this, "input", index);
  return input->tensor(index);
}
const Tensor* Op::inTensor(InIndex index) const { return const_cast<Op*>(this)->inTensor(index); }
Tensor* Op::outTensor(OutIndex index) {
  if (!hasOutput(index)) RefuseIndex(*this, "output", index);
  return output->tensor(index);
}
const Tensor* Op::outTensor(OutIndex index) const {
  return const_cast<Op*>(this)->outTensor(index);
}
TensorInfo& Op::inInfo(InIndex index) { return inTensor(index)->info; }
const TensorInfo& Op::inInfo(InIndex index) const { return inTensor(index)->info; }
TensorInfo& Op::outInfo(OutIndex index) { return outTensor(index)->info; }
const TensorInfo& Op::outInfo(OutIndex index) const { return outTensor(index)->info; }
TensorId Op::inId(InIndex index) const { return inTensor(index)->id; }
TensorId Op::outId(OutIndex index) const { return outTensor(index)->id; }

// --- Where it belongs ---

Ir& Op::getIr() { return getGraph().getIr(); }
const Ir& Op::getIr() const { return getGraph().getIr(); }
Op::Settings Op::getInSettings(InIndex) const { return settings; }
Op::Settings Op::getOutSettings(OutIndex) const { return settings; }
std::string Op::str() const { return logging::format("{} ({})", id, opid); }
std::string Op::debugName() const {
  const auto ids = [](const TensorIndexMap& tensors) {
    std::vector<TensorId> found;
    for (const Tensor* tensor : tensors.tensors()) found.push_back(tensor->id);
    return logging::join(found.begin(), found.end(), ", ");
  };
  const std::string name = settings.name.empty() ? opid.type : settings.name;
  return logging::format("Op({} ({}), inputs=[{}], outputs=[{}])", name, opid, ids(*input),
                         ids(*output));
}
VGraphId Op::getVirtualGraphId() const {
  if (!hasVirtualGraphId()) {
    throw error("Cannot return vGraphId for {}: it has none", debugName());
  }
  return *settings.vgraphId;
}
void Op::transferBaseProperties(Op* to) {
  const std::string name = to->settings.name;
  to->settings = settings;
  to->settings.name = name;
}
VGraphId Op::getIntrospectionInVirtualGraphId(InIndex index) const {
  std::set<OpId> visited;
  return getIntrospectionInVirtualGraphId(index, visited).first;
}
VGraphId Op::getIntrospectionOutVirtualGraphId(OutIndex index) const {
  std::set<OpId> visited;
  return getIntrospectionOutVirtualGraphId(index, visited).first;
}
VGraphIdAndTileSet Op::getIntrospectionInVirtualGraphId(InIndex, std::set<OpId>&) const {
  return {hasVirtualGraphId() ? getVirtualGraphId() : unusedVGraphId, settings.tileSet};
}
VGraphIdAndTileSet Op::getIntrospectionOutVirtualGraphId(OutIndex, std::set<OpId>&) const {
  return {hasVirtualGraphId() ? getVirtualGraphId() : unusedVGraphId, settings.tileSet};
}

// --- What operations override ---

void Op::setup() { throw error("No setup() for {}", opid); }
std::vector<std::unique_ptr<Op>> Op::getGradOps() { return {}; }
const std::vector<GradInOutMapper>& Op::gradInputInfo() const {
  throw error("Op {} cannot get `grad input info'", opid.type);
}
const std::map<int, int>& Op::gradOutToNonGradIn() const {
  throw error("Op {} cannot get `grad out to non grad in'", opid.type);
}
int Op::getNonGradInIndex(int gradOpOutIndex) const {
  return gradOutToNonGradIn().at(gradOpOutIndex);
}

void Op::appendAttributes(OpSerialiserBase& serialiser) const {
  appendOutlineAttributes(serialiser);
  serialiser.appendAttribute(sExecutionPhaseAttribute, settings.executionPhase);
  serialiser.appendAttribute(sExecutionContextAttribute,
                             static_cast<int64_t>(settings.executionContext));
  serialiser.appendAttribute(sPipelineStageAttribute, settings.pipelineStage);
  serialiser.appendAttribute("scope", settings.scope);
  serialiser.appendAttribute(sRecomputeOutputAttribute,
                             static_cast<int64_t>(settings.recomputeType));
}
void Op::appendOutlineAttributes(OpSerialiserBase& serialiser) const {
  serialiser.appendAttribute("recompute", settings.recomputeType == RecomputeType::Recompute);
  serialiser.appendAttribute(sVirtualGraphAttribute, settings.vgraphId);
  serialiser.appendAttribute(sTileSetAttribute, static_cast<int64_t>(settings.tileSet));
  for (const auto& attribute : settings.extraOutlineAttributes) {
    serialiser.appendAttribute(attribute.first, attribute.second);
  }
}
void Op::appendMore(OpSerialiserBase&) const {}
InIndex Op::getSeedInIndex() const {
  throw error("Op {} does not have random seed input tensor", debugName());
}
std::vector<std::tuple<OperatorIdentifier, float>> Op::inplacePriorityDefault() const { return {}; }
std::unique_ptr<Op> Op::getInplaceVariant(const OperatorIdentifier& wanted) const {
  throw error("Op {} cannot get an inplace Op {}", opid, wanted);
}
view::Regions Op::modifies(InIndex index) const { return {view::Region::getEmpty(inRank(index))}; }
view::Regions Op::uses(InIndex index) const { return {view::Region::getFull(inShape(index))}; }
view::Regions Op::aliases(InIndex in, OutIndex) const {
  return {view::Region::getEmpty(inRank(in))};
}

namespace {

view::RegMap EmptyOnly(const Op& op, const char* function, int64_t rank) {
  const std::string name = op.debugName();
  return [name, function, rank](const view::Region& region) {
    if (region.isEmpty()) return view::Regions(1, view::Region::getEmpty(rank));
    throw error("{} is not overridden by {}, and is required for regions that are not empty",
                function, name);
  };
}

}  // namespace

view::RegMap Op::fwdRegMap(InIndex, OutIndex out) const {
  return EmptyOnly(*this, "fwdRegMap", outRank(out));
}
view::RegMap Op::bwdRegMap(InIndex in, OutIndex) const {
  return EmptyOnly(*this, "bwdRegMap", inRank(in));
}
void Op::growAliasModel(AliasModel&) const {}
poprithms::memory::inplace::Proposal Op::mapInplaceProposal(const AliasModel& model,
                                                            OperatorIdentifier wanted) const {
  return mapInplaceProposalGate0(model, wanted);
}
poprithms::memory::inplace::Proposal Op::mapInplaceProposalGate0(const AliasModel&,
                                                                 OperatorIdentifier) const {
  return poprithms::memory::inplace::Proposal(id, 0);
}
ReplicatedTensorShardingIndices Op::getReplicatedTensorShardingIndices() const { return {}; }
void Op::configureForReplicatedTensorSharding(ReplicatedTensorShardingIndices,
                                              const ReplicaGrouping&) {}
void Op::configureForReplicatedTensorSharding(ReplicatedTensorShardingIndices, CommGroup) {}
ReductionType Op::getShardReductionType(OutIndex) const { return ReductionType::NoReduction; }
float Op::getShardRescaleFactor(Op*, OutIndex) const { return 1.0f; }
void Op::configureShardedOp(Op*, const Settings*) const {}
std::set<InIndex> Op::optionalInputs() const { return {}; }
std::vector<const Graph*> Op::getCalledGraphs() const { return {}; }
float Op::calcAutoVirtualGraphCost(std::set<int>&) { return 0.0f; }

// --- Questions ---

namespace {

bool IsAny(const view::Regions& regions) {
  for (const view::Region& region : regions) {
    if (!region.isEmpty()) return true;
  }
  return false;
}

}  // namespace

bool Op::doesAlias(InIndex in, OutIndex out) const { return IsAny(aliases(in, out)); }
bool Op::doesAlias() const {
  for (const auto& in : input->tensorMap()) {
    for (const auto& out : output->tensorMap()) {
      if (doesAlias(in.first, out.first)) return true;
    }
  }
  return false;
}
bool Op::modifiesIndex(InIndex index) const { return IsAny(modifies(index)); }
bool Op::modifies() const {
  for (const auto& in : input->tensorMap()) {
    if (modifiesIndex(in.first)) return true;
  }
  return false;
}
bool Op::modifiesTensor(Tensor* tensor) const {
  for (const int index : input->indices(tensor)) {
    if (modifiesIndex(index)) return true;
  }
  return false;
}
bool Op::overwritesTensor(Tensor* tensor) const {
  for (const int index : input->indices(tensor)) {
    for (const view::Region& region : modifies(index)) {
      if (region.getAccessType() == view::AccessType::Write &&
          region.nelms() == tensor->info.nelms()) {
        return true;
      }
    }
  }
  return false;
}
bool Op::isParentOf(const Op* op) const {
  for (Tensor* tensor : output->tensors()) {
    if (tensor->consumers.n(const_cast<Op*>(op)) > 0) return true;
  }
  return false;
}
bool Op::isChildOf(const Op* op) const { return op->isParentOf(this); }
int64_t Op::memOfOutputs() const {
  int64_t bytes = 0;
  for (const Tensor* tensor : output->tensors()) bytes += tensor->info.nbytes();
  return bytes;
}
std::string Op::getSubgraphEquivId() const { return OutlineText(*this); }

Op* Op::producerOf(InIndex index) const { return inTensor(index)->getProducerUnsafe(); }
std::vector<Op*> Op::consumersOf(OutIndex index) const {
  return outTensor(index)->consumers.getOps();
}

std::vector<int64_t> Op::prettyNpOut(const Shape& s0, const Shape& s1) {
  return npOut(s0, s1, str());
}
TensorInfo Op::prettyNpOut(const TensorInfo& i0, const TensorInfo& i1, bool checkDataType) {
  return npOut(i0, i1, checkDataType, str());
}
void Op::getInTensorData(TensorId tensorId, std::vector<int64_t>& data,
                         std::vector<DataType> dataTypes) {
  const Tensor* tensor = getGraph().getTensors().get(tensorId);
  const DataType type = tensor->info.dataType();
  if (std::find(dataTypes.begin(), dataTypes.end(), type) == dataTypes.end()) {
    throw error("The tensor {} of {} has the type {}; expected one of {}", tensorId, debugName(),
                type, dataTypes);
  }
  const int count = static_cast<int>(tensor->info.nelms());
  if (type == DataType::INT64) {
    data = tensor->tensorData()->copyDataAs<int64_t>(count);
  } else {
    data = vector_cast<int64_t>(tensor->tensorData()->copyDataAs<int32_t>(count));
  }
}

void AliasModel::insertUnaryModifier0(const Op&) {}
void AliasModel::insertUnaryModifier(const Op&, InIndex) {}
void AliasModel::insertBinaryModifier(const Op&) {}
void AliasModel::insertNG2aryModifier(const Op&, unsigned) {}
void AliasModel::insertViewChange(poprithms::memory::inplace::TensorId, const Tensor&, bool) {}
void AliasModel::insertTensor(const poprithms::memory::inplace::TensorId&, const Tensor&) {}
poprithms::memory::inplace::TensorId AliasModel::getPoprithmsTensorId(const TensorId&) const {
  return {};
}
bool AliasModel::contains(const TensorId&) const { return false; }

}  // namespace popart
