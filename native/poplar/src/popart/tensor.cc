// Tensors, their maps by index, and debug information.
#include "popart/tensor.hpp"

#include <atomic>
#include <string>
#include <vector>

#include "popart/graph.hpp"
#include "popart/ir.hpp"
#include "popart/tensorindex.hpp"

namespace popart {

Vertex::Vertex() = default;
Vertex::Vertex(const Vertex&) = default;
Vertex::~Vertex() = default;

DebugContext::DebugContext(const DebugInfo& parent, std::string name, SourceLocation location)
    : path_(parent.getPathName() + (name.empty() ? "" : "/" + name)), location_(location) {}
DebugContext::DebugContext(const DebugNameAndId& parent, std::string name, SourceLocation location)
    : path_(parent.getPathName() + (name.empty() ? "" : "/" + name)), location_(location) {}

DebugInfo::DebugInfo(const DebugContext& context, const std::string&)
    : id_(0), path_(context.getPathName()) {
  static std::atomic<poplar::DebugId> next{1};
  id_ = next++;
}
DebugInfo::~DebugInfo() = default;
bool DebugInfo::setValue(std::string, std::string) { return false; }
OpDebugInfo::OpDebugInfo(const DebugContext& context, const Op&) : DebugInfo(context, "op") {}
OpDebugInfo::~OpDebugInfo() = default;

std::vector<Op*> Consumers::getOps() const { return order_; }
int Consumers::getTotal() const {
  int total = 0;
  for (const auto& entry : counts_) total += entry.second;
  return total;
}
int Consumers::n(Op* op) const {
  const auto found = counts_.find(op);
  return found == counts_.end() ? 0 : found->second;
}
void Consumers::increment(Op* op) {
  if (++counts_[op] == 1) order_.push_back(op);
}
void Consumers::decrement(Op* op) {
  const auto found = counts_.find(op);
  if (found == counts_.end() || --found->second > 0) return;
  counts_.erase(found);
  order_.erase(std::find(order_.begin(), order_.end(), op));
}

Tensor::Tensor(TensorId id, TensorType type, Graph& graph, const DebugContext&)
    : id(std::move(id)), type_(type), graph_(&graph) {}
Tensor::~Tensor() = default;

std::string Tensor::tensor_type() const { return logging::format("{}", type_); }
Ir& Tensor::getIr() { return graph_->getIr(); }
const Ir& Tensor::getIr() const { return graph_->getIr(); }

Op* Tensor::getProducer() const {
  if (producer_ == nullptr) throw error("No producer for tensor {} to return", id);
  return producer_;
}
void Tensor::setProducer(Op* op) {
  if (producer_ != nullptr) {
    throw error("Cannot set a producer for the tensor {}: {} makes it already", id,
                producer_->debugName());
  }
  producer_ = op;
}
bool Tensor::isGraphInput() const { return graph_->hasInputId(id); }
bool Tensor::isGraphOutput() const { return graph_->hasOutputId(id); }

bool Tensor::isAnchored() const { return getIr().isAnchored(id); }

TensorData* Tensor::tensorData() {
  if (!data_) throw error("The tensor {} has no data: it is no constant", id);
  return data_.get();
}
const TensorData* Tensor::tensorData() const { return const_cast<Tensor*>(this)->tensorData(); }
void Tensor::setTensorDataFromCopyOf(const void* source, size_t size) {
  data_.reset(new TensorData(TensorData::fromCopyOf(source, size)));
}

VGraphId Tensor::getVirtualGraphIdUnsafe() const {
  if (producer_ != nullptr && producer_->hasVirtualGraphId()) return producer_->getVirtualGraphId();
  for (const Op* op : consumers.getOps()) {
    if (op->hasVirtualGraphId()) return op->getVirtualGraphId();
  }
  return unusedVGraphId;
}
bool Tensor::hasVirtualGraphId() const { return getVirtualGraphIdUnsafe() != unusedVGraphId; }
VGraphId Tensor::getVirtualGraphId() const {
  const VGraphId found = getVirtualGraphIdUnsafe();
  if (found == unusedVGraphId) {
    throw error("Invalid call to getVirtualGraphId: the tensor {} is on no virtual graph", id);
  }
  return found;
}

void TensorIndexMap::insert(int index, Tensor* tensor) {
  if (hasIndex(index)) {
    throw internal_error("TensorIndexMap::insert: already has an input at index {}: {}", index,
                         id(index));
  }
  tensors_[index] = tensor;
  indices_[tensor].push_back(index);
}
void TensorIndexMap::reset(int index, Tensor* tensor) {
  erase(index);
  insert(index, tensor);
}
void TensorIndexMap::erase(int index) {
  const auto found = tensors_.find(index);
  if (found == tensors_.end()) return;
  std::vector<int>& indices = indices_[found->second];
  indices.erase(std::find(indices.begin(), indices.end(), index));
  if (indices.empty()) indices_.erase(found->second);
  tensors_.erase(found);
}
void TensorIndexMap::clear() {
  tensors_.clear();
  indices_.clear();
}
Tensor* TensorIndexMap::find(int index) const {
  const auto found = tensors_.find(index);
  if (found == tensors_.end()) throw error("No tensor at index {} in TensorIndexMap", index);
  return found->second;
}
TensorId TensorIndexMap::id(int index) const { return find(index)->id; }
const std::vector<int>& TensorIndexMap::indices(Tensor* tensor) const {
  const auto found = indices_.find(tensor);
  if (found == indices_.end()) throw error("The tensor {} is not in TensorIndexMap", tensor->id);
  return found->second;
}
std::vector<Tensor*> TensorIndexMap::tensors() const {
  std::vector<Tensor*> found;
  for (const auto& entry : tensors_) found.push_back(entry.second);
  return found;
}
std::map<int, TensorId> TensorIndexMap::tensorIdMap() const {
  std::map<int, TensorId> ids;
  for (const auto& entry : tensors_) ids[entry.first] = entry.second->id;
  return ids;
}
int TensorIndexMap::minIndex() const { return tensors_.empty() ? -1 : tensors_.begin()->first; }
int TensorIndexMap::maxIndex() const { return tensors_.empty() ? -1 : tensors_.rbegin()->first; }

}  // namespace popart
