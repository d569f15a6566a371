// Graphs and programs.
#include "popart/graph.hpp"

#include <atomic>
#include <string>
#include <vector>

#include "popart/ir.hpp"
#include "popart/transforms/transform.hpp"
#include "serialiser.h"

namespace popart {

const GraphId& GraphId::root() {
  static const GraphId id("");
  return id;
}
std::ostream& operator<<(std::ostream& os, const GraphId& id) { return os << id.str(); }

void TopoCons::insert(Op* before, Op* after, bool) { order_.emplace(before, after); }
bool TopoCons::contains(Op* before, Op* after) const { return order_.count({before, after}) != 0; }
void TopoCons::remove(Op* op) {
  for (auto it = order_.begin(); it != order_.end();) {
    it = it->first == op || it->second == op ? order_.erase(it) : std::next(it);
  }
}
std::vector<Op*> TopoCons::getBefores(Op* after) const {
  std::vector<Op*> found;
  for (const auto& pair : order_) {
    if (pair.second == after) found.push_back(pair.first);
  }
  return found;
}
std::vector<Op*> TopoCons::getAfters(Op* before) const {
  std::vector<Op*> found;
  for (const auto& pair : order_) {
    if (pair.first == before) found.push_back(pair.second);
  }
  return found;
}

Tensor* Tensors::lookUp(const TensorId& id) const {
  const auto found = tensors_.find(id);
  if (found != tensors_.end()) return found->second.get();
  detail::FrontEnd* frontEnd = graph_.getIr().getFrontEnd();
  if (frontEnd == nullptr) return nullptr;
  frontEnd->findTensor(graph_, id);
  const auto added = tensors_.find(id);
  return added == tensors_.end() ? nullptr : added->second.get();
}
Tensor* Tensors::get(const TensorId& id) const {
  Tensor* tensor = lookUp(id);
  if (tensor == nullptr)
    throw error("No Ir::Tensor with TensorId '{}' in the graph '{}'", id, graph_.id);
  return tensor;
}
bool Tensors::contains(const TensorId& id) const { return lookUp(id) != nullptr; }
TensorId Tensors::find(const TensorId& id, const Scope& scope) const {
  for (Scope outer = scope;; outer.pop()) {
    const TensorId scoped = (outer / id).str();
    if (contains(scoped)) return scoped;
    if (outer.empty()) return "";
  }
}
bool Tensors::contains(const TensorId& id, const Scope& scope) const {
  return !find(id, scope).empty();
}
std::vector<TensorId> Tensors::getAllTensorIds() const {
  std::vector<TensorId> ids;
  for (const auto& entry : tensors_) ids.push_back(entry.first);
  return ids;
}
void Tensors::remove(const TensorId& id) { tensors_.erase(id); }

Tensor* Tensors::add(const TensorId& id, TensorType type, const DebugContext& debugContext) {
  std::unique_ptr<Tensor>& place = tensors_[id];
  if (place) throw internal_error("Tensor {} already in tensors", id);
  place.reset(new Tensor(id, type, graph_, debugContext));
  return place.get();
}
void Tensors::addActGrad(const TensorId& id, const DebugContext& debugContext) {
  add(id, TensorType::ActGrad, debugContext);
}
void Tensors::addStream(const TensorId& id, const TensorInfo& info,
                        const DebugContext& debugContext) {
  add(id, TensorType::Stream, debugContext)->info = info;
}
void Tensors::addConstInit(const TensorId& id, const TensorInfo& info, const void* data,
                           const DebugContext& debugContext) {
  Tensor* tensor = add(id, TensorType::Const, debugContext);
  tensor->info = info;
  tensor->setTensorDataFromCopyOf(data, static_cast<size_t>(info.nbytes()));
}
void Tensors::addVarInit(const TensorId& id, const TensorInfo& info, const void* data,
                         const DebugContext& debugContext) {
  Tensor* tensor = add(id, TensorType::Variable, debugContext);
  tensor->info = info;
  if (data != nullptr) {
    tensor->setTensorDataFromCopyOf(data, static_cast<size_t>(info.nbytes()));
  }
}

Graph::Graph(Ir& ir, const GraphId& id)
    : id(id), topoCons(new TopoCons), ir_(ir), tensors_(*this) {}
Graph::~Graph() = default;

OpId Graph::moveIntoGraph(std::unique_ptr<Op> op) {
  op->id = ir_.getAndIncrOpsCounter();
  op->settings.graph = *this;
  const OpId id = op->id;
  ops_[id] = std::move(op);
  return id;
}

void Graph::connect(Op* op, const std::map<InIndex, TensorId>& in,
                    const std::map<OutIndex, TensorId>& out) {
  try {
    for (const auto& entry : in) op->connectInTensor(entry.first, entry.second);
    for (const auto& entry : out) {
      if (tensors_.contains(entry.second)) {
        Tensor* tensor = tensors_.get(entry.second);
        if (tensor->hasProducer()) tensor->getProducer()->disconnectOutTensor(tensor);
        op->connectOutTensor(entry.first, entry.second);
      } else {
        op->createAndConnectOutTensor(entry.first, entry.second);
      }
    }
    op->setup();
    if (detail::FrontEnd* frontEnd = ir_.getFrontEnd()) frontEnd->created(*op);
  } catch (...) {
    const std::vector<Tensor*> made = op->output->tensors();
    op->disconnectAllInputs();
    op->disconnectAllOutputs();
    for (Tensor* tensor : made) tensors_.remove(tensor->id);
    eraseOp(op->id);
    throw;
  }
}

void Graph::eraseOp(OpId opId) {
  const auto found = ops_.find(opId);
  if (found == ops_.end()) throw error("No op with id {} in the graph '{}'", opId, id);
  topoCons->remove(found->second.get());
  found->second->disconnectAllInputs();
  found->second->disconnectAllOutputs();
  ops_.erase(found);
}
Op* Graph::getOpUnsafe(OpId opId) const {
  const auto found = ops_.find(opId);
  return found == ops_.end() ? nullptr : found->second.get();
}
Op* Graph::getOp(OpId opId) const {
  Op* op = getOpUnsafe(opId);
  if (op == nullptr) throw error("No Op `{}' in the graph '{}'", opId, id);
  return op;
}
std::vector<OpId> Graph::getOpIds() const {
  std::vector<OpId> ids;
  for (const auto& entry : ops_) ids.push_back(entry.first);
  return ids;
}
std::vector<Op*> Graph::getOpSchedule(const OpsBeforeKey& before, RequireOptimalSchedule) const {
  // The op that was made first comes first, of those whose operands are there.
  std::map<OpId, std::set<OpId>> waits, followers;
  const auto order = [&](const Op* first, const Op* second) {
    waits[second->id].insert(first->id);
    followers[first->id].insert(second->id);
  };
  for (const auto& entry : ops_) {
    Op* op = entry.second.get();
    for (const Tensor* tensor : op->input->tensors()) {
      if (tensor->hasProducer()) order(tensor->getProducer(), op);
    }
    for (const Op* other : topoCons->getBefores(op)) order(other, op);
    const auto found = before.find(op);
    if (found == before.end()) continue;
    for (const Op* other : found->second) order(other, op);
  }
  std::set<OpId> ready;
  for (const auto& entry : ops_) {
    if (waits[entry.first].empty()) ready.insert(entry.first);
  }
  std::vector<Op*> schedule;
  while (!ready.empty()) {
    const OpId next = *ready.begin();
    ready.erase(ready.begin());
    schedule.push_back(getOp(next));
    for (const OpId follower : followers[next]) {
      waits[follower].erase(next);
      if (waits[follower].empty()) ready.insert(follower);
    }
  }
  if (schedule.size() != ops_.size()) {
    throw error("The ops of {} cannot be put into an order: there is a cycle", getGraphString());
  }
  return schedule;
}

void Graph::addInput(const TensorId& tensorId, const TensorInfo& info) {
  tensors_.addActGrad(tensorId);
  tensors_.get(tensorId)->info = info;
  inputs_.push_back(tensorId);
}
bool Graph::hasInputId(const TensorId& tensorId) const {
  return std::find(inputs_.begin(), inputs_.end(), tensorId) != inputs_.end();
}
bool Graph::hasOutputId(const TensorId& tensorId) const {
  return std::find(outputs_.begin(), outputs_.end(), tensorId) != outputs_.end();
}
void Graph::replaceTensor(const TensorId& oldId, const TensorId& newId) {
  Tensor* old = tensors_.get(oldId);
  for (Op* op : old->consumers.getOps()) {
    for (const int index : std::vector<int>(op->input->indices(old))) {
      op->disconnectInTensor(index, old);
      op->connectInTensor(index, newId);
    }
  }
}
void Graph::removeIsolatedTensors(bool retainUsedIOTensors) {
  for (const TensorId& tensorId : tensors_.getAllTensorIds()) {
    const Tensor* tensor = tensors_.get(tensorId);
    const bool isUsed = tensor->hasProducer() || tensor->consumers.getTotal() > 0;
    if (!isUsed && !(retainUsedIOTensors && (hasInputId(tensorId) || hasOutputId(tensorId)))) {
      tensors_.remove(tensorId);
    }
  }
}
Scope Graph::getScope() const { return id.str().empty() ? Scope() : Scope() / id.str(); }
std::string Graph::getGraphString() const {
  return id.str().empty() ? "the main graph" : "subgraph '" + id.str() + "'";
}

detail::FrontEnd::~FrontEnd() = default;

Ir::Ir() {
  static std::atomic<uint64_t> next{0};
  id_ = next++;
  createGraph(GraphId::root());
}
Ir::~Ir() = default;

Graph& Ir::createGraph(const GraphId& id) {
  std::unique_ptr<Graph>& graph = graphs_[id];
  if (graph) throw internal_error("Graph({}) is already in Ir", id);
  graph.reset(new Graph(*this, id));
  return *graph;
}
Graph& Ir::getGraph(const GraphId& id) const {
  const auto found = graphs_.find(id);
  if (found == graphs_.end()) throw error("There is no graph '{}' in the Ir", id);
  return *found->second;
}
std::vector<const Graph*> Ir::getAllGraphs() const {
  std::vector<const Graph*> graphs;
  for (const auto& entry : graphs_) graphs.push_back(entry.second.get());
  return graphs;
}
std::vector<Op*> Ir::getAllOps() const {
  std::vector<Op*> ops;
  for (const auto& entry : graphs_) {
    for (const auto& op : entry.second->getOps()) ops.push_back(op.second.get());
  }
  return ops;
}
std::vector<Op*> Ir::opsOfType(const OperatorIdentifier& opid) const {
  std::vector<Op*> found;
  for (Op* op : getAllOps()) {
    if (op->opid.type == opid.type && op->opid.domain == opid.domain) found.push_back(op);
  }
  return found;
}
std::vector<Op*> Ir::getOpSchedule(const OpsBeforeKey&, RequireOptimalSchedule) const {
  return getAllOps();
}
bool Ir::containsTensor(const TensorId& id) const {
  for (const auto& entry : graphs_) {
    if (entry.second->getTensors().contains(id)) return true;
  }
  return false;
}
Tensor* Ir::getTensor(const TensorId& id) const {
  for (const auto& entry : graphs_) {
    if (entry.second->getTensors().contains(id)) return entry.second->getTensor(id);
  }
  throw error("No Ir::Tensor with TensorId '{}' in any graph", id);
}
const Optimizer& Ir::getOptimizer() const { detail::notImplemented("Ir::getOptimizer"); }
void Ir::applyTransform(std::size_t transformId, Graph& graph) {
  Transform::applyTransform(transformId, graph);
}
void Ir::serialise(SerialiseFormat, std::stringstream& text, bool) const {
  text << "{";
  for (const auto& entry : graphs_) {
    const std::string& name = entry.first.str();
    text << (entry.first == graphs_.begin()->first ? "" : ",") << '"'
         << (name.empty() ? "maingraph" : name) << "\":[";
    bool first = true;
    for (const auto& op : entry.second->getOps()) {
      text << (first ? "" : ",") << "{\"type\":\"" << op.second->opid.type << "\",\"name\":\""
           << op.second->getName() << "\"}";
      first = false;
    }
    text << "]";
  }
  text << "}";
}
TensorId Ir::createIntermediateTensorId(const TensorId& base) {
  return base + "__t" + std::to_string(nextTensor_++);
}

}  // namespace popart
