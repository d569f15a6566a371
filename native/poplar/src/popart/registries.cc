// The registries of ops, shapes and lowerings.
//
// Static objects of users' libraries fill them while those are loaded, so each is a static of a
// function.
#include <map>
#include <string>
#include <vector>

#include "built_in_ops.h"
#include "popart/graph.hpp"
#include "popart/opmanager.hpp"
#include "popart/popx/opxmanager.hpp"
#include "popart/tensors.hpp"
#include "registries.h"

namespace popart {
namespace {

template <typename Value>
using ByIdentifier = std::map<OperatorIdentifier, Value>;

ByIdentifier<OpManager::OpInfo>& Ops() {
  static ByIdentifier<OpManager::OpInfo> ops;
  return ops;
}
ByIdentifier<ShapeInferenceFunction>& Shapes() {
  static ByIdentifier<ShapeInferenceFunction> functions;
  return functions;
}
ByIdentifier<popx::OpxFactoryFunc>& Opxs() {
  static ByIdentifier<popx::OpxFactoryFunc> factories;
  return factories;
}
// The entry of the highest version that is not above the opset's; the end if there is none.
template <typename Value>
typename ByIdentifier<Value>::const_iterator Newest(const ByIdentifier<Value>& entries,
                                                    const OpDomain& domain, const OpType& type,
                                                    int opset) {
  auto newest = entries.end();
  const OperatorIdentifier first(domain, type, 0);
  for (auto it = entries.lower_bound(first); it != entries.end(); ++it) {
    if (it->first.domain != first.domain || it->first.type != first.type) break;
    if (static_cast<int>(it->first.version) <= opset) newest = it;
  }
  return newest;
}

std::function<void()>& Watcher() {
  static std::function<void()> watcher;
  return watcher;
}

void Notify() {
  if (Watcher()) Watcher()();
}

std::unique_ptr<Op> Make(const OpManager::OpInfo& info, const OperatorIdentifier& opid,
                         Graph& graph, const std::string& name, const Scope& scope,
                         const Attributes& attributes, const std::vector<TensorId>& inputs,
                         const std::vector<TensorId>& outputs) {
  Op::Settings settings(graph, name, scope);
  settings.setFromAttributes(attributes);
  if (!info.simpleFactory) {
    throw internal_error("The factory of {} adds to a graph by itself, and makes no op", opid);
  }
  std::unique_ptr<Op> op =
      info.simpleFactory(OpCreatorInfo(opid, settings, attributes, inputs, outputs));
  if (op == nullptr) throw error("The factory of {} returned no op", opid);
  return op;
}

}  // namespace

void WatchRegistrations(std::function<void()> watcher) { Watcher() = std::move(watcher); }

// --- Ops ---

void OpManager::registerOp(const OpInfo& info) {
  Ops().emplace(info.id, info);
  Notify();
}
std::unique_ptr<Op> OpManager::createOp(const OperatorIdentifier& opid, Graph& graph,
                                        const std::string& name, const Attributes& attr) {
  const auto found = Ops().find(opid);
  if (found == Ops().end()) {
    if (!attr.getNames().empty()) return nullptr;
    return MakeBuiltIn(opid, Op::Settings(graph, name));
  }
  return Make(found->second, found->first, graph, name, {}, attr, {}, {});
}
std::unique_ptr<Op> OpManager::createOp(const OpDomain& domain, const OpType& type,
                                        int opsetVersion, Graph& graph, const std::string& name,
                                        const Scope& scope, const Attributes& attr,
                                        const std::vector<TensorId>& inputIds,
                                        const std::vector<TensorId>& outputIds) {
  const auto found = Newest(Ops(), domain, type, opsetVersion);
  if (found == Ops().end()) return nullptr;
  return Make(found->second, found->first, graph, name, scope, attr, inputIds, outputIds);
}
Op* OpManager::createOpWithInputs(const OpDomain& domain, const OpType& type, int opsetVersion,
                                  Graph& graph, const std::string& name, const Scope& scope,
                                  const Attributes& attr, const std::vector<TensorId>& inputIds,
                                  const std::vector<TensorId>& outputIds) {
  const auto found = Newest(Ops(), domain, type, opsetVersion);
  if (found == Ops().end()) return nullptr;
  if (found->second.complexFactory) {
    Op::Settings settings(graph, name, scope);
    settings.setFromAttributes(attr);
    return found->second.complexFactory(
        OpCreatorInfo(found->first, settings, attr, inputIds, outputIds), graph);
  }
  std::unique_ptr<Op> op =
      Make(found->second, found->first, graph, name, scope, attr, inputIds, outputIds);
  Op* made = op.get();
  graph.moveIntoGraph(std::move(op));
  std::map<InIndex, TensorId> in;
  std::map<OutIndex, TensorId> out;
  for (size_t i = 0; i < inputIds.size(); ++i) {
    if (!inputIds[i].empty()) in[static_cast<int>(i)] = inputIds[i];
  }
  for (size_t i = 0; i < outputIds.size(); ++i) {
    if (!outputIds[i].empty()) out[static_cast<int>(i)] = outputIds[i];
  }
  graph.connect(made, in, out);
  return made;
}
std::vector<OperatorIdentifier> OpManager::getSupportedOperations(bool includePrivate) {
  std::vector<OperatorIdentifier> found;
  for (const auto& entry : Ops()) {
    if (includePrivate || entry.second.isPublic) found.push_back(entry.first);
  }
  return found;
}
OpDefinitions OpManager::getSupportedOperationsDefinition(bool includePrivate) {
  OpDefinitions found;
  for (const auto& entry : Ops()) {
    if (includePrivate || entry.second.isPublic) {
      found.emplace(entry.first, entry.second.details);
    }
  }
  return found;
}
OpVersion OpManager::getOpVersionFromOpSet(const OpDomain& domain, const OpType& type,
                                           int opsetVersion) {
  const auto found = Newest(Ops(), domain, type, opsetVersion);
  return found == Ops().end() ? 0 : found->first.version;
}

bool OpCreatorInfo::hasInputTensor(int index) const {
  return static_cast<size_t>(index) < inputIds_.size() && !inputIds_[index].empty();
}
Tensor* OpCreatorInfo::getInputTensor(int index) const {
  if (!hasInputTensor(index)) throw error("{} has no input at index {}", debugName(), index);
  return settings.graph.get().getTensors().get(inputIds_[index]);
}
TensorInfo& OpCreatorInfo::getInputTensorInfo(int index) const {
  return getInputTensor(index)->info;
}
TensorData* OpCreatorInfo::getInputTensorData(int index) const {
  return getInputTensor(index)->tensorData();
}
std::string OpCreatorInfo::debugName() const {
  return logging::format("Op({} ({}))", settings.name.empty() ? opid.type : settings.name, opid);
}

// --- Shapes ---

RegisterShapeInferenceFunction::RegisterShapeInferenceFunction(const OperatorIdentifier& opid,
                                                               ShapeInferenceFunction function) {
  if (!Shapes().emplace(opid, std::move(function)).second) {
    logging::op::warn("A shape inference function of {} is registered already, and stays", opid);
  }
}
const ShapeInferenceFunction* FindShapeInference(const OpDomain& domain, const OpType& type,
                                                 int opset) {
  const auto found = Newest(Shapes(), domain, type, opset);
  return found == Shapes().end() ? nullptr : &found->second;
}
const TensorInfo& ShapeInferenceContext::inInfo(int index) const {
  const auto found = inputs_.find(index);
  if (found == inputs_.end()) {
    throw error("The shape of the input at index {} was asked for, and is not known", index);
  }
  return found->second;
}

// --- Lowerings ---

void popx::OpxManager::registerOpx(const OperatorIdentifier& opid, OpxFactoryFunc factory) {
  Opxs().emplace(opid, std::move(factory));
  Notify();
}
std::unique_ptr<popx::Opx> popx::OpxManager::createOpx(Op* op, Devicex* device) {
  const auto found = Opxs().find(op->opid);
  return found == Opxs().end() ? nullptr : found->second(op, device);
}

}  // namespace popart
