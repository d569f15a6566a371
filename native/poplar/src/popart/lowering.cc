#include "lowering.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "popart/popx/devicex.hpp"
#include "popart/popx/opxmanager.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Target.hpp"
#include "poplar/core/Embedding.hpp"
#include "poplar/core/WrittenVariables.hpp"

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

// The lowering of an op into a graph: it may make inputs, then it grows once.
class Lowering {
 public:
  Lowering(std::shared_ptr<Ir> ir, Op* op, poplar::Graph& graph)
      : ir_(std::move(ir)),
        op_(op),
        lowering_(*ir_, graph),
        device_(lowering_),
        opx_(popx::OpxManager::createOpx(op, &device_)) {
    if (opx_ != nullptr) return;
    throw error(
        "Could not create opx for '{}': no lowering of {} is registered. Register one with "
        "a static popart::popx::OpxCreator, or let a pattern replace the op",
        op->debugName(), op->opid);
  }

  // The tensor that the op wants for an input; invalid if it does not care. An op that needs other
  // tensors first gets a linear mapping.
  Tensor CreateInput(unsigned position) const {
    const auto entry = std::next(op_->input->tensorMap().begin(), position);
    const popx::InputCreatorType type = opx_->getInputCreatorType(entry->first);
    if (type != popx::InputCreatorType::CanCreate &&
        type != popx::InputCreatorType::CanCreateOrUnwind) {
      return Tensor();
    }
    for (const std::set<TensorId>& needed : opx_->mustExistBeforeCreateDNF(entry->first)) {
      if (!needed.empty()) continue;
      return AsEmbedded(
          opx_->createInput(entry->first, opx_->getDebugNameAndId(entry->second->id)));
    }
    return Tensor();
  }

  // Calls `grow`. Outputs of the program are those of the op, then the inputs that it modifies.
  poplar::program::Program Grow(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    popx::PopTensors& tensors = lowering_.tensors();
    size_t position = 0;
    for (const auto& entry : op_->input->tensorMap()) {
      const Tensor input = AsLowered(inputs.at(position++));
      if (!tensors.contains(entry.second->id)) tensors.insert(entry.second->id, input);
    }
    poplar::program::Sequence program;
    opx_->grow(program);
    for (const auto& entry : op_->output->tensorMap()) {
      if (!tensors.contains(entry.second->id)) {
        throw error(
            "no poplar::Tensor {}: the lowering of {} did not call setOutTensor for output "
            "{}",
            entry.second->id, op_->debugName(), entry.first);
      }
      outputs.push_back(AsEmbedded(tensors.get(entry.second->id)));
    }
    const SessionOptions& options = ir_->getSessionOptions();
    if (options.opxAliasChecking) CheckAliases();
    if (options.opxModifyChecking) CheckModified(program);
    for (const InIndex index : ModifiedInputs(*op_)) {
      outputs.push_back(AsEmbedded(opx_->getInTensor(index)));
    }
    return program;
  }

 private:
  // Throws error if an output shares memory with an input, and the op does not say so.
  void CheckAliases() const {
    for (const auto& in : op_->input->tensorMap()) {
      for (const auto& out : op_->output->tensorMap()) {
        if (op_->doesAlias(in.first, out.first) ||
            !opx_->getInTensor(in.first).intersectsWith(opx_->getOutTensor(out.first))) {
          continue;
        }
        throw error(
            "{}: input {} and output {} do not contain aliases, but the Poplar tensors disagree. "
            "Let Op::aliases say that they share memory, or copy the input",
            op_->debugName(), in.first, out.first);
      }
    }
  }

  // Throws error if the program writes into an input that the op does not say it modifies.
  void CheckModified(const poplar::program::Program& program) const {
    for (const auto& in : op_->input->tensorMap()) {
      if (op_->modifiesIndex(in.first) ||
          !poplar::core::writesInto(lowering_.graph(), program, opx_->getInTensor(in.first))) {
        continue;
      }
      throw error(
          "{} says that its input {} is not modified, but its program writes into it. Let "
          "Op::modifies say so, or copy the input",
          op_->debugName(), in.first);
    }
  }

  const std::shared_ptr<Ir> ir_;
  Op* const op_;
  mutable popx::IrLowering lowering_;
  popx::Devicex device_;
  const std::unique_ptr<popx::Opx> opx_;
};

void Complete(const std::string& key, poplar::core::EmbeddingSpec& spec) {
  const Entry entry = Find(key);
  spec.name = entry.op->debugName();
  // Made with the graph that the first call gets: all calls of a specification get the same.
  const auto lowering = std::make_shared<std::unique_ptr<Lowering>>();
  const auto in = [lowering, entry](poplar::Graph& graph) -> Lowering& {
    if (*lowering == nullptr) lowering->reset(new Lowering(entry.ir, entry.op, graph));
    return **lowering;
  };
  spec.allocate = [in](poplar::Graph& graph, unsigned input) {
    return in(graph).CreateInput(input);
  };
  spec.build = [in, lowering](poplar::Graph& graph, const std::vector<Tensor>& inputs,
                              std::vector<Tensor>& outputs) {
    const poplar::program::Program program = in(graph).Grow(inputs, outputs);
    lowering->reset();  // a lowering grows once
    return program;
  };
}

const poplar::core::EmbeddingRegistration registration(kEmbeddingName, Complete);

}  // namespace

std::string RegisterLowering(std::shared_ptr<Ir> ir, Op* op, const std::string& title,
                             bool complete) {
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
  Lowering lowering(entry.ir, entry.op, graph);
  std::vector<poplar::Tensor> inputs, outputs;
  for (const auto& input : entry.op->input->tensorMap()) {
    const poplar::Tensor made = lowering.CreateInput(static_cast<unsigned>(inputs.size()));
    const KernelTensor tensor = TypeOf(input.second->info);
    inputs.push_back(made.valid() ? made
                                  : graph.addVariable(tensor.type, tensor.shape,
                                                      poplar::VariableMappingMethod::LINEAR));
  }
  lowering.Grow(inputs, outputs);
}

}  // namespace popart
