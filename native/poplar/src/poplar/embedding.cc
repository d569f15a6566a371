#include "poplar/core/Embedding.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "access.h"
#include "embedding_costs.h"
#include "executable_data.h"
#include "external.h"
#include "graph_data.h"
#include "memory_reuse.h"
#include "poplar/Engine.hpp"
#include "types.h"
#include "variable_uses.h"
#include "view.h"

namespace poplar::core {
namespace {

using program::Copy;
using program::Program;
using program::Sequence;

constexpr int kNone = -1;
constexpr uintptr_t kPage = 4096;

// A variable that the caller has the memory of.
struct Slot {
  int input = kNone, output = kNone;  // whose buffer it is; both where they share it
  uint64_t bytes = 0;
};

std::string ShapeText(const std::vector<size_t>& shape) {
  std::string text = "{";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  }
  return text + "}";
}

// The variable that a tensor is all of, in row-major order; else kNone.
int64_t WholeVariableOf(const GraphData& graph, const Tensor& tensor) {
  const RunList list = RunsOf(*Access::View(tensor));
  if (list.runs().size() != 1) return kNone;
  const Run& run = list.runs()[0];
  const Variable& variable = graph.variables[run.var];
  const bool whole = run.begin == 0 && run.count == variable.count &&
                     (run.stride == 1 || run.count == 1) && tensor.elementType() == variable.type;
  return whole ? int64_t{run.var} : kNone;
}

// The variable of the first element.
uint32_t VariableOf(const Tensor& tensor) {
  const View& view = *Access::View(tensor);
  return view.runs == nullptr ? view.strided.var : view.runs->runs().front().var;
}

// Makes the program of a specification, and finds where it can work in the caller's memory.
class Builder {
 public:
  explicit Builder(const EmbeddingSpec& spec) : spec_(spec), graph_(spec.target) {
    data().replicas = spec.replicas;
    if (!spec.codelets.empty()) graph_.addCodelets(spec.codelets);
  }

  Executable Build() {
    for (unsigned i = 0; i < spec_.inputs.size(); ++i) inputs_.push_back(AddInput(i));
    std::vector<Tensor> outputs;
    const Program operation = spec_.build(graph_, inputs_, outputs);
    CheckOutputs(&outputs);
    Sequence program(DebugContext(spec_.name));
    Sequence before, after;
    BindTensors(operation, outputs, &before, &after);
    program.add(before);
    program.add(operation);
    program.add(after);
    temporary_ = ShareMemory(&data(), program);
    return compileGraph(graph_, {program}, spec_.options);
  }

  const std::vector<Slot>& slots() const { return slots_; }
  // The output that shares memory with an input, by input.
  const std::map<unsigned, unsigned>& aliases() const { return aliases_; }
  // Bytes on the fullest tile, besides inputs and outputs.
  uint64_t temporary() const { return temporary_; }

 private:
  GraphData& data() { return *Access::Data(graph_); }

  DebugContext Named(const char* kind, size_t index) const {
    return {spec_.name + "/" + kind + std::to_string(index)};
  }

  Tensor AddInput(unsigned index) {
    const KernelTensor& input = spec_.inputs[index];
    if (spec_.allocate) {
      const Tensor allocated = spec_.allocate(graph_, index);
      if (allocated.valid()) return Allocated(index, allocated);
    }
    return graph_.addVariable(input.type, input.shape, VariableMappingMethod::LINEAR,
                              Named("input", index));
  }

  // A tensor that the user's allocator made, or one in row-major order that is mapped like it.
  Tensor Allocated(unsigned index, const Tensor& allocated) {
    const KernelTensor& input = spec_.inputs[index];
    if (allocated.shape() != input.shape || allocated.elementType() != input.type) {
      throw poplar_error("The allocator made " + Text(allocated) + " for input " +
                         std::to_string(index) + ", which is " + Text(input) + ".");
    }
    const int64_t whole = WholeVariableOf(data(), allocated);
    if (whole != kNone && !data().variables[whole].constant &&
        data().variables[whole].initial.empty()) {
      return allocated;
    }
    const Tensor tensor = graph_.addVariable(input.type, input.shape, Named("input", index));
    graph_.setTileMapping(tensor, graph_.getTileMapping(allocated));
    // Nothing uses the other: it takes no memory.
    ForEachRun(*Access::View(allocated), [&](const Run& run) {
      Variable& variable = data().variables[run.var];
      variable.tiles = TileMap(variable.count);
    });
    return tensor;
  }

  void CheckOutputs(std::vector<Tensor>* outputs) {
    if (outputs->size() != spec_.outputs.size()) {
      throw poplar_error(
          "Instruction " + spec_.name + " has mismatched outputs number, expected: " +
          std::to_string(spec_.outputs.size()) + ", returned: " + std::to_string(outputs->size()));
    }
    for (size_t i = 0; i < outputs->size(); ++i) {
      Tensor& output = (*outputs)[i];
      if (!output.valid() && spec_.invalidIsZero) output = Zeros(i);
      if (!output.valid()) {
        throw poplar_error("Output " + std::to_string(i) + " is a Tensor that is not valid.");
      }
      const KernelTensor& declared = spec_.outputs[i];
      if (output.elementType() == declared.type && output.shape() == declared.shape) continue;
      throw poplar_error("Output " + std::to_string(i) + " is declared as " + Text(declared) +
                         ", and the operation made " + Text(output) + ".");
    }
  }

  static std::string Text(const KernelTensor& tensor) {
    return tensor.type.toString().cloneAsString() + ShapeText(tensor.shape);
  }
  static std::string Text(const Tensor& tensor) {
    return Text(KernelTensor{tensor.elementType(), tensor.shape()});
  }

  Tensor Zeros(size_t output) {
    const KernelTensor& declared = spec_.outputs[output];
    const float zero = 0;
    const Tensor zeros = Access::AddConstant(graph_, declared.type, declared.shape, &zero, FLOAT,
                                             true, Named("output", output));
    graph_.setTileMapping(zeros, 0);
    return zeros;
  }

  // Makes variables external: inputs, and outputs that the program writes whole. Others are
  // copied, after the program, or before it where it changes an input that the caller keeps.
  void BindTensors(const Program& operation, const std::vector<Tensor>& outputs, Sequence* before,
                   Sequence* after) {
    std::vector<int64_t> whole;
    std::vector<uint32_t> variables;
    for (const Tensor& input : inputs_) variables.push_back(VariableOf(input));
    for (const Tensor& output : outputs) {
      whole.push_back(WholeVariableOf(data(), output));
      if (whole.back() != kNone) variables.push_back(static_cast<uint32_t>(whole.back()));
    }
    const std::map<uint32_t, VariableUse> uses = UsesOf(data(), operation, variables);
    FindAliases(outputs, whole);
    std::vector<int> input_of(outputs.size(), kNone);
    for (const auto& [input, output] : aliases_) input_of[output] = static_cast<int>(input);
    for (size_t i = 0; i < inputs_.size(); ++i) BindInput(i, uses.at(variables[i]), before);
    Sequence shared;  // last, as others may be views of these
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (input_of[i] != kNone) {
        BindShared(i, outputs[i], input_of[i], &shared);
      } else {
        const bool direct = whole[i] != kNone && CanBeExternal(whole[i], uses.at(whole[i]));
        BindOutput(i, outputs[i], direct, after);
      }
    }
    after->add(shared);
  }

  // Adds to the declared aliases: an output that is an input shares its memory, whether or not the
  // program writes into it. The caller copies the input if others need its old value.
  void FindAliases(const std::vector<Tensor>& outputs, const std::vector<int64_t>& whole) {
    aliases_ = spec_.aliases;
    std::vector<bool> shared(outputs.size());
    for (const auto& [input, output] : aliases_) shared[output] = true;
    for (unsigned input = 0; input < inputs_.size(); ++input) {
      for (unsigned output = 0; output < outputs.size() && aliases_.count(input) == 0; ++output) {
        if (shared[output] || whole[output] != VariableOf(inputs_[input]) ||
            outputs[output].shape() != inputs_[input].shape()) {
          continue;
        }
        aliases_[input] = output;
        shared[output] = true;
      }
    }
  }

  void MakeExternal(const Tensor& tensor, Slot slot) {
    Variable& variable = data().variables[VariableOf(tensor)];
    variable.external = static_cast<int>(slots_.size());
    slot.bytes = variable.count * SizeOf(variable.type);
    slots_.push_back(slot);
  }

  // Another variable that is mapped like a tensor.
  Tensor Like(const Tensor& tensor, const DebugContext& context) {
    const Tensor copy = graph_.addVariable(tensor.elementType(), tensor.shape(), context);
    graph_.setTileMapping(copy, graph_.getTileMapping(tensor));
    return copy;
  }

  void BindInput(size_t index, const VariableUse& use, Sequence* before) {
    Slot slot;
    slot.input = static_cast<int>(index);
    const auto alias = aliases_.find(static_cast<unsigned>(index));
    if (alias != aliases_.end()) slot.output = static_cast<int>(alias->second);
    if (!use.written || slot.output != kNone) {
      MakeExternal(inputs_[index], slot);
      return;
    }
    const Tensor kept = Like(inputs_[index], Named("input", index));
    MakeExternal(kept, slot);
    before->add(Copy(kept, inputs_[index]));
  }

  bool CanBeExternal(int64_t variable, const VariableUse& use) {
    const Variable& data_of = data().variables[variable];
    return !data_of.constant && data_of.initial.empty() && data_of.external == kNone &&
           use.defined && !use.read_first;
  }

  void BindOutput(size_t index, const Tensor& output, bool direct, Sequence* after) {
    Slot slot;
    slot.output = static_cast<int>(index);
    if (direct) {
      graph_.getTileMapping(output);  // throws if it is not mapped
      MakeExternal(output, slot);
      return;
    }
    const Tensor copy = Like(output, Named("output", index));
    MakeExternal(copy, slot);
    after->add(Copy(output, copy));
  }

  void BindShared(size_t index, const Tensor& output, int input, Sequence* after) {
    const Tensor& place = inputs_[input];
    if (place.shape() != output.shape() || place.elementType() != output.elementType()) {
      throw poplar_error("Output " + std::to_string(index) + ", " + Text(output) +
                         ", cannot share memory with input " + std::to_string(input) + ", " +
                         Text(place) + ".");
    }
    if (output != place) after->add(Copy(output, place));
  }

  const EmbeddingSpec& spec_;
  Graph graph_;
  std::vector<Tensor> inputs_;
  std::vector<Slot> slots_;
  std::map<unsigned, unsigned> aliases_;
  uint64_t temporary_ = 0;
};

// Memory for buffers that vertices cannot use as they are.
class Aligned {
 public:
  explicit Aligned(uint64_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kExternalAlignment, bytes + kExternalPadding) != 0) {
      throw std::bad_alloc();
    }
    memory_.reset(memory);
  }
  void* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

// Whether it is aligned, and reading a little behind its end touches no other page.
bool Fits(const void* buffer, uint64_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(buffer);
  if (begin % kExternalAlignment != 0) return false;
  const uintptr_t end = begin + bytes;
  return bytes == 0 || (end - 1) / kPage == (end - 1 + kExternalPadding) / kPage;
}

bool HasMeetings(const ExecutableData& code) {
  return std::any_of(code.instructions.begin(), code.instructions.end(), [](const Instruction& i) {
    return i.op == Op::kMeet || i.op == Op::kReplicaCopy;
  });
}

std::map<std::string, EmbeddingFactory>& Factories() {
  static auto* factories = new std::map<std::string, EmbeddingFactory>;
  return *factories;
}

std::mutex& FactoriesMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

}  // namespace

struct Embedding::Data {
  std::shared_ptr<ExecutableData> code;
  std::vector<Slot> slots;
  std::map<unsigned, unsigned> aliases;
  uint64_t temporary = 0;  // bytes on the fullest tile
};

struct EmbeddingInstance::Data {
  std::shared_ptr<const Embedding::Data> embedding;
  Engine engine;
  const size_t replicas;
  // Of slots whose buffers did not fit, replica by replica.
  std::vector<std::unique_ptr<Aligned>> copies;

  Data(std::shared_ptr<const Embedding::Data> of, size_t number_of_replicas)
      : embedding(std::move(of)),
        engine(ExecutableOf(*embedding)),
        replicas(number_of_replicas),
        copies(replicas * embedding->slots.size()) {}

  static Executable ExecutableOf(const Embedding::Data& embedding) {
    Executable executable;
    Access::Data(executable) = embedding.code;
    return executable;
  }
};

Embedding::Embedding(const EmbeddingSpec& spec) {
  Builder builder(spec);
  const Executable executable = builder.Build();
  auto data = std::make_shared<Data>();
  data->code = Access::Data(executable);
  data->slots = builder.slots();
  data->aliases = builder.aliases();
  data->temporary = builder.temporary();
  data_ = std::move(data);
}

Embedding::~Embedding() = default;

const std::map<unsigned, unsigned>& Embedding::aliases() const { return data_->aliases; }

std::string Embedding::describe() const { return CostsOf(*data_->code, data_->temporary); }

bool Embedding::exchanges() const { return data_->code->replicas > 1 && HasMeetings(*data_->code); }

std::unique_ptr<EmbeddingInstance> Embedding::instantiate(unsigned replica) const {
  auto data = std::make_unique<EmbeddingInstance::Data>(data_, 1);
  LoadWithoutDevice(&data->engine, replica);
  return std::make_unique<EmbeddingInstance>(std::move(data));
}

std::unique_ptr<EmbeddingInstance> Embedding::instantiateAll() const {
  auto data = std::make_unique<EmbeddingInstance::Data>(data_, data_->code->replicas);
  LoadAllWithoutDevice(&data->engine);
  return std::make_unique<EmbeddingInstance>(std::move(data));
}

EmbeddingInstance::EmbeddingInstance(std::unique_ptr<Data> data) : data_(std::move(data)) {}
EmbeddingInstance::~EmbeddingInstance() = default;

void EmbeddingInstance::run(const std::vector<const void*>& inputs,
                            const std::vector<void*>& outputs) {
  const std::vector<Slot>& slots = data_->embedding->slots;
  const size_t num_inputs = inputs.size() / data_->replicas;
  const size_t num_outputs = outputs.size() / data_->replicas;
  for (size_t r = 0; r < data_->replicas; ++r) {
    for (size_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = slots[i];
      void* const buffer = slot.output != kNone
                               ? outputs[r * num_outputs + slot.output]
                               : const_cast<void*>(inputs[r * num_inputs + slot.input]);
      // A shared buffer that the caller has not passed for both: the input keeps its value.
      if (slot.input != kNone && slot.output != kNone &&
          inputs[r * num_inputs + slot.input] != buffer) {
        std::memcpy(buffer, inputs[r * num_inputs + slot.input], slot.bytes);
      }
      std::unique_ptr<Aligned>& copy = data_->copies[r * slots.size() + i];
      const bool fits = Fits(buffer, slot.bytes);
      if (!fits && copy == nullptr) copy = std::make_unique<Aligned>(slot.bytes);
      if (!fits && slot.input != kNone) std::memcpy(copy->data(), buffer, slot.bytes);
      BindExternal(&data_->engine, r, i, fits ? buffer : copy->data());
    }
  }
  data_->engine.run(0);
  for (size_t r = 0; r < data_->replicas; ++r) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].output == kNone) continue;
      void* const buffer = outputs[r * num_outputs + slots[i].output];
      if (!Fits(buffer, slots[i].bytes)) {
        std::memcpy(buffer, data_->copies[r * slots.size() + i]->data(), slots[i].bytes);
      }
    }
  }
}

EmbeddingRegistration::EmbeddingRegistration(const std::string& name, EmbeddingFactory factory) {
  std::lock_guard<std::mutex> lock(FactoriesMutex());
  Factories()[name] = std::move(factory);
}

EmbeddingFactory findEmbedding(const std::string& name) {
  std::lock_guard<std::mutex> lock(FactoriesMutex());
  const auto found = Factories().find(name);
  if (found != Factories().end()) return found->second;
  throw link_error("No operation is registered as '" + name + "': load the library that has it.",
                   "");
}

}  // namespace poplar::core
