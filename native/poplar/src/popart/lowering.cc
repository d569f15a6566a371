#include "lowering.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "popart/popx/devicex.hpp"
#include "popart/popx/opxmanager.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Target.hpp"
#include "poplar/core/Embedding.hpp"
#include "registries.h"

namespace popart {
namespace {

using poplar::Tensor;
using poplar::core::KernelTensor;

struct Entry {
  std::shared_ptr<Ir> ir;
  Op* op;
};

std::mutex& EntriesMutex() {
  static std::mutex mutex;
  return mutex;
}
std::map<std::string, Entry>& Entries() {
  static std::map<std::string, Entry> entries;
  return entries;
}

Entry Find(const std::string& key) {
  std::lock_guard<std::mutex> lock(EntriesMutex());
  const auto found = Entries().find(key);
  if (found == Entries().end()) throw internal_error("There is no op for the key {}", key);
  return found->second;
}

std::vector<InIndex> ModifiedInputs(const Op& op) {
  std::vector<InIndex> found;
  for (const auto& entry : op.input->tensorMap()) {
    if (op.modifiesIndex(entry.first)) found.push_back(entry.first);
  }
  return found;
}

KernelTensor TypeOf(const TensorInfo& info) {
  return {popx::popType(getCompatibleDataType(info.dataType())), info.shape_szt()};
}

// Embedded programs hold int8 as CHAR; lowerings take and make SIGNED_CHAR.
Tensor AsType(const Tensor& tensor, const poplar::Type& from, const poplar::Type& to) {
  return tensor.elementType() == from ? tensor.reinterpret(to) : tensor;
}
Tensor AsLowered(const Tensor& tensor) { return AsType(tensor, poplar::CHAR, poplar::SIGNED_CHAR); }
Tensor AsEmbedded(const Tensor& tensor) {
  return AsType(tensor, poplar::SIGNED_CHAR, poplar::CHAR);
}

// Calls `grow` of a new lowering of an op. Outputs of the program are those of the op, then the
// inputs that it modifies.
poplar::program::Program Grow(const Ir& ir, Op* op, poplar::Graph& graph,
                              const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  popx::IrLowering lowering(ir, graph);
  popx::Devicex device(lowering);
  popx::PopTensors& tensors = lowering.tensors();
  size_t position = 0;
  for (const auto& entry : op->input->tensorMap()) {
    const Tensor input = AsLowered(inputs.at(position++));
    if (!tensors.contains(entry.second->id)) tensors.insert(entry.second->id, input);
  }
  const std::unique_ptr<popx::Opx> opx = popx::OpxManager::createOpx(op, &device);
  poplar::program::Sequence program;
  opx->grow(program);
  for (const auto& entry : op->output->tensorMap()) {
    if (!tensors.contains(entry.second->id)) {
      throw error(
          "no poplar::Tensor {}: the lowering of {} did not call setOutTensor for output "
          "{}",
          entry.second->id, op->debugName(), entry.first);
    }
    outputs.push_back(AsEmbedded(tensors.get(entry.second->id)));
  }
  for (const InIndex index : ModifiedInputs(*op)) {
    outputs.push_back(AsEmbedded(opx->getInTensor(index)));
  }
  return program;
}

void Complete(const std::string& key, poplar::core::EmbeddingSpec& spec) {
  const Entry entry = Find(key);
  const std::shared_ptr<Ir> ir = entry.ir;
  Op* op = entry.op;
  spec.name = op->debugName();
  spec.build = [ir, op](poplar::Graph& graph, const std::vector<Tensor>& inputs,
                        std::vector<Tensor>& outputs) {
    return Grow(*ir, op, graph, inputs, outputs);
  };
}

const poplar::core::EmbeddingRegistration registration(kEmbeddingName, Complete);

}  // namespace

std::string RegisterLowering(std::shared_ptr<Ir> ir, Op* op, const std::string& title,
                             bool complete) {
  if (!HasOpx(op->opid)) {
    throw error(
        "Could not create opx for '{}': no lowering of {} is registered. Register one with "
        "a static popart::popx::OpxCreator, or let a pattern replace the op",
        op->debugName(), op->opid);
  }
  for (const auto& tensor : op->input->tensorMap()) TypeOf(tensor.second->info);
  std::lock_guard<std::mutex> lock(EntriesMutex());
  std::string key = title;
  for (int i = 1; Entries().count(key) != 0; ++i) {
    if (complete || Entries().at(key).op == op) return key;
    key = title + "#" + std::to_string(i);
  }
  Entries()[key] = {std::move(ir), op};
  return key;
}

void CheckLowering(const std::string& key) {
  const Entry entry = Find(key);
  const int64_t replicas = entry.ir->getSessionOptions().getReplicationFactor();
  poplar::Graph graph(poplar::Target::createIPUTarget(static_cast<unsigned>(replicas), "ipu2"),
                      poplar::replication_factor(static_cast<unsigned>(replicas)));
  std::vector<poplar::Tensor> inputs, outputs;
  for (const auto& input : entry.op->input->tensorMap()) {
    const KernelTensor tensor = TypeOf(input.second->info);
    inputs.push_back(
        graph.addVariable(tensor.type, tensor.shape, poplar::VariableMappingMethod::LINEAR));
  }
  Grow(*entry.ir, entry.op, graph, inputs, outputs);
}

}  // namespace popart
