// Evaluates an expression over elements in blocks that stay in the cache.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "poplar/core/BlockKernel.hpp"
#include "poplar/core/Halves.hpp"
#include "popops/block_functions.h"
#include "poputil/exceptions.hpp"

#pragma GCC optimize("O3")

namespace popops {
namespace {

using namespace popops::expr;
using poplar::core::KernelSpec;

constexpr size_t kBlock = poplar::core::BlockKernel::kBlock;
// Of a float to a half and back, in additions of floats: two passes over the block.
constexpr size_t kRoundingCost = 2;
constexpr size_t kRegisterBytes = kBlock * sizeof(uint64_t);

template <typename Op>
Op OpOfName(const std::string& name) {
  static const auto* ops = [] {
    auto* map = new std::map<std::string, Op>;
    for (int i = 0; !toString(static_cast<Op>(i)).empty(); ++i) {
      (*map)[toString(static_cast<Op>(i))] = static_cast<Op>(i);
    }
    return map;
  }();
  const auto found = ops->find(name);
  if (found == ops->end()) {
    throw poputil::poplibs_error("popops: there is no operation '" + name + "' in an expression.");
  }
  return found->second;
}

// An operand of an instruction: an input, a number or a register, by their index.
struct Slot {
  enum Kind { kInput, kNumber, kRegister } kind;
  unsigned index;
  Element element;
};

struct Instruction {
  BlockFunction function;
  std::vector<Slot> operands;
  unsigned output;  // a register
  // The result is a half: it is rounded.
  bool rounds;
};

struct Number {
  Element element;
  // One block of it.
  std::vector<uint8_t> block;
};

void RoundToHalves(float* block, size_t count) {
  uint16_t halves[kBlock];
  poplar::core::floatsToHalves(block, halves, count);
  poplar::core::halvesToFloats(halves, block, count);
}

template <typename T>
void FillBlock(T value, std::vector<uint8_t>* block) {
  block->resize(kBlock * sizeof(T));
  std::fill_n(reinterpret_cast<T*>(block->data()), kBlock, value);
}

Number NumberOf(const std::string& code, const std::string& text) {
  Number number{ElementOfCode(code), {}};
  if (number.element == Element::kFloat || number.element == Element::kHalf) {
    FillBlock(std::stof(text), &number.block);
    float* block = reinterpret_cast<float*>(number.block.data());
    if (number.element == Element::kHalf) RoundToHalves(block, kBlock);
    return number;
  }
  const int64_t value = std::stoll(text);
  switch (BlockSizeOf(number.element)) {
    case 1:
      FillBlock(static_cast<uint8_t>(value), &number.block);
      break;
    case 2:
      FillBlock(static_cast<uint16_t>(value), &number.block);
      break;
    case 4:
      FillBlock(static_cast<uint32_t>(value), &number.block);
      break;
    default:
      FillBlock(static_cast<uint64_t>(value), &number.block);
  }
  return number;
}

// An expression as instructions over registers of one block each.
class Program {
 public:
  Program(const std::string& text, const std::vector<Element>& inputs) {
    std::istringstream tokens(text);
    for (std::string token; tokens >> token;) Add(token, inputs);
  }

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<Number>& numbers() const { return numbers_; }
  const Slot& result() const { return stack_.back(); }
  size_t host_cost() const { return host_cost_; }
  unsigned registers() const { return registers_; }

 private:
  void Add(const std::string& token, const std::vector<Element>& inputs) {
    if (token[0] == '$') {
      const unsigned index = static_cast<unsigned>(std::stoul(token.substr(1)));
      stack_.push_back({Slot::kInput, index, inputs[index]});
      return;
    }
    const size_t colon = token.find(':');
    const std::string rest = token.substr(colon + 1);
    if (token[0] == '#') {
      numbers_.push_back(NumberOf(token.substr(1, colon - 1), rest));
      stack_.push_back(
          {Slot::kNumber, static_cast<unsigned>(numbers_.size()) - 1, numbers_.back().element});
      return;
    }
    const size_t second = rest.find(':');
    const std::string name = rest.substr(0, second);
    const Element element = ElementOfCode(rest.substr(second + 1));
    switch (token[0]) {
      case 'U': {
        const auto op = OpOfName<UnaryOpType>(name);
        return AddOp(FindBlockOp(op, element), 1, IsPredicate(op) ? Element::kBool : element);
      }
      case 'B': {
        const auto op = OpOfName<BinaryOpType>(name);
        return AddOp(FindBlockOp(op, element), 2, IsPredicate(op) ? Element::kBool : element);
      }
      case 'T':
        return AddOp(FindBlockOp(OpOfName<TernaryOpType>(name), element), 3, element);
      default:
        return AddOp({FindBlockCast(ElementOfCode(name), element)}, 1, element);
    }
  }

  void AddOp(BlockOp op, size_t arity, Element result) {
    Instruction instruction{op.function,
                            {stack_.end() - arity, stack_.end()},
                            TakeRegister(),
                            result == Element::kHalf};
    stack_.resize(stack_.size() - arity);
    host_cost_ += op.host_cost + (instruction.rounds ? kRoundingCost : 0);
    for (const Slot& operand : instruction.operands) {
      if (operand.kind == Slot::kRegister) free_.push_back(operand.index);
    }
    stack_.push_back({Slot::kRegister, instruction.output, result});
    instructions_.push_back(std::move(instruction));
  }

  unsigned TakeRegister() {
    if (free_.empty()) return registers_++;
    const unsigned taken = free_.back();
    free_.pop_back();
    return taken;
  }

  std::vector<Instruction> instructions_;
  std::vector<Number> numbers_;
  std::vector<Slot> stack_;
  std::vector<unsigned> free_;
  unsigned registers_ = 0;
  size_t host_cost_ = 0;
};

// An input that is broadcast to the shape of the output.
class Broadcast {
 public:
  Broadcast(const std::vector<size_t>& from, const std::vector<size_t>& to) {
    const size_t missing = to.size() - from.size();
    size_t stride = 1;
    std::vector<size_t> strides(to.size(), 0);
    for (size_t d = to.size(); d-- > missing;) {
      const size_t size = from[d - missing];
      strides[d] = size == 1 ? 0 : stride;
      stride *= size;
    }
    count_ = stride;
    for (size_t d = 0; d < to.size(); ++d) {
      if (to[d] == 1) continue;
      // Dimensions that are one run are joined.
      if (!dims_.empty() && dims_.back().stride == strides[d] * to[d]) {
        dims_.back() = {dims_.back().size * to[d], strides[d]};
      } else {
        dims_.push_back({to[d], strides[d]});
      }
    }
  }

  bool IsWhole() const { return dims_.empty() || (dims_.size() == 1 && dims_[0].stride == 1); }
  bool IsScalar() const { return count_ == 1; }

  // Copies the elements for those of the output from `begin` on.
  template <typename T>
  void Gather(const T* from, size_t begin, size_t count, T* to) const {
    size_t index[kMostDims];
    size_t offset = 0;
    size_t rest = begin;
    for (size_t d = dims_.size(); d-- > 0;) {
      index[d] = rest % dims_[d].size;
      rest /= dims_[d].size;
      offset += index[d] * dims_[d].stride;
    }
    const Dim& inner = dims_.back();
    while (true) {
      const size_t run = std::min(count, inner.size - index[dims_.size() - 1]);
      if (inner.stride == 0) {
        std::fill_n(to, run, from[offset]);
      } else {
        // Of the innermost dimension that is not broadcast, elements lie together.
        std::copy_n(from + offset, run, to);
      }
      to += run;
      count -= run;
      if (count == 0) return;
      // The next row.
      offset -= index[dims_.size() - 1] * inner.stride;
      index[dims_.size() - 1] = 0;
      for (size_t d = dims_.size() - 1; d-- > 0;) {
        offset += dims_[d].stride;
        if (++index[d] < dims_[d].size) break;
        offset -= dims_[d].stride * dims_[d].size;
        index[d] = 0;
      }
    }
  }

  size_t NumDims() const { return dims_.size(); }
  static constexpr size_t kMostDims = 32;

 private:
  struct Dim {
    size_t size, stride;
  };
  std::vector<Dim> dims_;
  size_t count_;
};

struct Input {
  Input(Element element_of, Broadcast broadcast_of)
      : element(element_of),
        broadcast(std::move(broadcast_of)),
        size(TensorSizeOf(element)),
        is_scalar(broadcast.IsScalar()),
        is_read_in_place(!is_scalar && broadcast.IsWhole() && element != Element::kHalf) {}

  Element element;
  Broadcast broadcast;
  size_t size;  // of an element in a tensor
  bool is_scalar, is_read_in_place;
};

// What one thread computes with: registers, and blocks of inputs.
class Worker : public poplar::core::BlockRun {
 public:
  Worker(const Program& program, const std::vector<Input>& inputs,
         const std::vector<const void*>& data, Element out_element, void* out)
      : program_(program),
        inputs_(inputs),
        data_(data),
        out_element_(out_element),
        out_size_(TensorSizeOf(out_element)),
        out_(out) {
    if (inputs.size() > kFewInputs) {
      many_blocks_.resize(inputs.size());
      blocks_ = many_blocks_.data();
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].is_scalar) Load(i, 0, kBlock);
    }
  }

  size_t limit() const override { return NeedsRegisters() ? kBlock : 2 * kBlock; }

  void run(size_t begin, size_t count) override {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].is_read_in_place) {
        blocks_[i] = static_cast<const char*>(data_[i]) + begin * inputs_[i].size;
      } else if (!inputs_[i].is_scalar) {
        Load(i, begin, count);
      }
    }
    char* out = static_cast<char*>(out_) + begin * out_size_;
    const void* result = nullptr;
    for (const Instruction& instruction : program_.instructions()) {
      const void* operands[3];
      for (size_t i = 0; i < instruction.operands.size(); ++i) {
        operands[i] = BlockOf(instruction.operands[i]);
      }
      const bool last = &instruction == &program_.instructions().back();
      const bool direct = last && out_element_ != Element::kHalf;
      void* target = direct ? out : RegisterOf(instruction.output);
      instruction.function(operands, target, count);
      if (instruction.rounds && !last) RoundToHalves(static_cast<float*>(target), count);
      result = target;
    }
    if (result == nullptr) result = BlockOf(program_.result());
    if (out_element_ == Element::kHalf) {
      poplar::core::floatsToHalves(static_cast<const float*>(result),
                                   reinterpret_cast<uint16_t*>(out), count);
    } else if (result != out) {
      std::memmove(out, result, count * out_size_);
    }
  }

 private:
  // Whether it works on blocks besides those of its tensors.
  bool NeedsRegisters() const {
    return out_element_ == Element::kHalf || program_.instructions().size() > 1 ||
           !program_.numbers().empty() ||
           !std::all_of(inputs_.begin(), inputs_.end(),
                        [](const Input& input) { return input.is_read_in_place; });
  }

  void* RegisterOf(size_t index) {
    if (memory_ == nullptr) {  // the op of two tensors of floats needs none
      const size_t registers = program_.registers() + 2 * inputs_.size();
      memory_.reset(new uint64_t[registers * kRegisterBytes / sizeof(uint64_t)]);  // not set to 0
    }
    return memory_.get() + index * kRegisterBytes / sizeof(uint64_t);
  }

  const void* BlockOf(const Slot& slot) {
    switch (slot.kind) {
      case Slot::kInput:
        return blocks_[slot.index];
      case Slot::kNumber:
        return program_.numbers()[slot.index].block.data();
      default:
        return RegisterOf(slot.index);
    }
  }

  // Finds the block of an input: where it is, or in registers behind those of the program.
  void Load(size_t i, size_t begin, size_t count) {
    const Input& input = inputs_[i];
    const void* block = static_cast<const char*>(data_[i]) + begin * input.size;
    if (input.is_scalar) {
      block = Repeat(data_[i], input.size, RegisterOf(program_.registers() + 2 * i));
    } else if (!input.broadcast.IsWhole()) {
      void* gathered = RegisterOf(program_.registers() + 2 * i);
      Gather(input, data_[i], begin, count, gathered);
      block = gathered;
    }
    if (input.element == Element::kHalf) {
      float* floats = static_cast<float*>(RegisterOf(program_.registers() + 2 * i + 1));
      poplar::core::halvesToFloats(static_cast<const uint16_t*>(block), floats, count);
      block = floats;
    }
    blocks_[i] = block;
  }

  static const void* Repeat(const void* element, size_t size, void* block) {
    for (size_t i = 0; i < kBlock; ++i) {
      std::memcpy(static_cast<char*>(block) + i * size, element, size);
    }
    return block;
  }

  static void Gather(const Input& input, const void* from, size_t begin, size_t count, void* to) {
    const auto gather = [&](auto element) {
      using T = decltype(element);
      input.broadcast.Gather(static_cast<const T*>(from), begin, count, static_cast<T*>(to));
    };
    switch (input.size) {
      case 1:
        return gather(uint8_t());
      case 2:
        return gather(uint16_t());
      case 4:
        return gather(uint32_t());
      default:
        return gather(uint64_t());
    }
  }

  const Program& program_;
  const std::vector<Input>& inputs_;
  const std::vector<const void*>& data_;
  const Element out_element_;
  const size_t out_size_;
  void* const out_;
  std::unique_ptr<uint64_t[]> memory_;
  // Of the inputs. Few are kept here: a run may be shorter than an allocation.
  static constexpr size_t kFewInputs = 4;
  const void* few_blocks_[kFewInputs];
  std::vector<const void*> many_blocks_;
  const void** blocks_ = few_blocks_;
};

std::vector<Element> InputElements(const KernelSpec& spec) {
  std::vector<Element> elements;
  for (const auto& input : spec.inputs) elements.push_back(ElementOf(input.type));
  return elements;
}

class MapKernel : public poplar::core::BlockKernel {
 public:
  explicit MapKernel(const KernelSpec& spec)
      : program_(spec.parameters, InputElements(spec)),
        out_element_(ElementOf(spec.outputs[0].type)) {
    for (const size_t size : spec.outputs[0].shape) count_ *= size;
    for (const auto& input : spec.inputs) {
      inputs_.emplace_back(ElementOf(input.type), Broadcast(input.shape, spec.outputs[0].shape));
      if (inputs_.back().broadcast.NumDims() > Broadcast::kMostDims) {
        throw poputil::poplibs_error("popops::map: a tensor has more than 32 dimensions.");
      }
    }
  }

  size_t count() const override { return count_; }
  size_t hostCost() const override { return program_.host_cost(); }

  bool isElementwise(size_t input) const override { return inputs_[input].broadcast.IsWhole(); }

  std::unique_ptr<poplar::core::BlockRun> start(const std::vector<const void*>& inputs,
                                                const std::vector<void*>& outputs) override {
    return std::make_unique<Worker>(program_, inputs_, inputs, out_element_, outputs[0]);
  }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    poplar::core::parallelFor(count_, poplar::core::grainOf(hostCost()),
                              [&](size_t begin, size_t end) {
                                Worker worker(program_, inputs_, inputs, out_element_, outputs[0]);
                                const size_t block = worker.limit();
                                for (size_t at = begin; at < end; at += block)
                                  worker.run(at, std::min(block, end - at));
                              });
  }

 private:
  Program program_;
  Element out_element_;
  std::vector<Input> inputs_;
  size_t count_ = 1;
};

const poplar::core::KernelRegistration kMap("popops::map", [](const KernelSpec& spec) {
  return std::unique_ptr<poplar::core::Kernel>(new MapKernel(spec));
});

}  // namespace
}  // namespace popops
