#include "chains.h"

#include <algorithm>

namespace poplar::core {
namespace {

// Whether each instruction is one that others jump to.
std::vector<bool> Targets(const ExecutableData& code) {
  std::vector<bool> targets(code.instructions.size() + 1, false);
  for (const int64_t entry : code.entries) targets[entry] = true;
  for (const Instruction& i : code.instructions) {
    switch (i.op) {
      case Op::kLoopEnd:
      case Op::kJump:
      case Op::kJumpIfZero:
      case Op::kJumpIfNotZero:
      case Op::kCall:
        targets[i.b] = true;
        break;
      default:
        break;
    }
  }
  for (const SwitchCode& table : code.switches) {
    targets[table.otherwise] = true;
    for (const auto& [value, target] : table.cases) targets[target] = true;
  }
  return targets;
}

// Memory that the ops of a chain use.
class Uses {
 public:
  // Whether an op can come after the ops before, so that each block of it needs the same block of
  // theirs and no other.
  bool Fits(const LibraryOpCode& op, const BlockKernel& kernel) const {
    const Argument& output = op.outputs[0];
    for (const Use& use : uses_) {
      if (Apart(use.argument, output)) continue;
      if (!use.by_block || !Same(use.argument, output)) return false;
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      for (const Use& use : uses_) {
        if (!use.written || Apart(use.argument, op.inputs[i])) continue;
        if (!kernel.isElementwise(i) || !Same(use.argument, op.inputs[i])) return false;
      }
    }
    return true;
  }

  void Add(const LibraryOpCode& op, const BlockKernel& kernel) {
    uses_.push_back({op.outputs[0], /*written=*/true, /*by_block=*/true});
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      uses_.push_back({op.inputs[i], /*written=*/false, kernel.isElementwise(i)});
    }
  }

 private:
  struct Use {
    const Argument& argument;
    bool written, by_block;
  };

  static bool Apart(const Argument& a, const Argument& b) {
    return a.place + a.bytes <= b.place || b.place + b.bytes <= a.place;
  }
  // As many elements in the same memory, so that blocks are the same bytes.
  static bool Same(const Argument& a, const Argument& b) {
    return a.place == b.place && a.bytes == b.bytes;
  }

  std::vector<Use> uses_;
};

bool IsInMemory(const std::vector<Argument>& arguments) {
  return std::all_of(arguments.begin(), arguments.end(), [](const Argument& argument) {
    return argument.before.empty() && argument.after.empty();
  });
}

}  // namespace

std::vector<uint32_t> FindChains(const ExecutableData& code,
                                 const std::vector<std::unique_ptr<Kernel>>& kernels) {
  const std::vector<bool> targets = Targets(code);
  // The kernel of an instruction that can be in a chain, else null.
  const auto kernel_at = [&](size_t at) -> BlockKernel* {
    if (at >= code.instructions.size()) return nullptr;
    const Instruction& i = code.instructions[at];
    if (i.op != Op::kLibraryOp) return nullptr;
    const LibraryOpCode& op = code.library_ops[i.a];
    if (!IsInMemory(op.inputs) || !IsInMemory(op.outputs)) return nullptr;
    auto* const kernel = dynamic_cast<BlockKernel*>(kernels[i.a].get());
    // An operand of one element is read once, before the blocks.
    return kernel != nullptr && kernel->count() > 1 ? kernel : nullptr;
  };
  std::vector<uint32_t> lengths(code.instructions.size(), 0);
  for (size_t begin = 0; begin < code.instructions.size();) {
    const BlockKernel* const first = kernel_at(begin);
    Uses uses;
    size_t end = begin;
    for (const BlockKernel* kernel = first; kernel != nullptr; kernel = kernel_at(end)) {
      const LibraryOpCode& op = code.library_ops[code.instructions[end].a];
      if (end > begin && (targets[end] || kernel->count() != first->count())) break;
      if (end > begin && !uses.Fits(op, *kernel)) break;
      uses.Add(op, *kernel);
      ++end;
    }
    if (end - begin > 1) lengths[begin] = static_cast<uint32_t>(end - begin);
    begin = std::max(end, begin + 1);
  }
  return lengths;
}

}  // namespace poplar::core
