// Runs instructions: a replica until it meets others, and all replicas in turn.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine_data.h"
#include "engine_options.h"
#include "float_traps.h"
#include "parallel_for.h"
#include "poplar/core/BlockKernel.hpp"
#include "poplar/exceptions.hpp"
#include "print.h"
#include "registers.h"

namespace poplar::core {
namespace {

// Why a replica has stopped.
enum class Stop {
  kEnd,   // of the program
  kHost,  // it has exchanged data with the host: the others go first
  kMeet,  // before a step of all replicas
};

// One replica in a program.
class Runner {
 public:
  Runner(EngineData* engine, Replica* replica, int64_t entry, bool traced)
      : engine_(*engine),
        code_(*engine->code),
        replica_(*replica),
        number_(replica_.number),
        traced_(traced),
        memory_(replica_.space()),
        counters_(code_.counters, 0),
        at_(entry) {}

  // The instruction that comes next.
  int64_t at() const { return at_; }
  AddressSpace memory() const { return memory_; }
  // Goes on after a step of all replicas.
  void Pass() { Account(code_.instructions[at_++].step); }

  // Runs to the end or, if there are other replicas, until it exchanges data with the host or meets
  // them.
  Stop Run(bool alone) {
    while (true) {
      const Instruction& i = code_.instructions[at_++];
      if (i.op == Op::kMeet || i.op == Op::kReplicaCopy) {
        --at_;
        return Stop::kMeet;
      }
      if (i.step != 0) Account(i.step);
      switch (i.op) {
        case Op::kCopy:
          ApplyInParallel(code_.copies[i.a], memory_, memory_);
          break;
        case Op::kExecute:
          Execute(code_.compute_sets[i.a], i.b);
          break;
        case Op::kStreamIn:
          StreamIn(i);
          if (!alone) return Stop::kHost;
          break;
        case Op::kStreamOut:
          StreamOut(i);
          if (!alone) return Stop::kHost;
          break;
        case Op::kRemoteRead:
        case Op::kRemoteWrite:
          Remote(i);
          break;
        case Op::kLoopBegin:
          counters_[i.a] = i.b;
          break;
        case Op::kLoopEnd:
          if (--counters_[i.a] > 0) at_ = i.b;
          break;
        case Op::kJump:
          at_ = i.b;
          break;
        case Op::kJumpIfZero:
          if (IsZero(i)) at_ = i.b;
          break;
        case Op::kJumpIfNotZero:
          if (!IsZero(i)) at_ = i.b;
          break;
        case Op::kSwitch:
          at_ = CaseOf(i);
          break;
        case Op::kCall:
          returns_.push_back(at_);
          at_ = i.b;
          break;
        case Op::kReturn:
          if (returns_.empty()) return Stop::kEnd;
          at_ = returns_.back();
          returns_.pop_back();
          break;
        case Op::kHostCall:
          HostCall(code_.calls[i.a]);
          if (!alone) return Stop::kHost;
          break;
        case Op::kLibraryOp:
          RunLibraryOps();
          break;
        case Op::kMeet:
        case Op::kReplicaCopy:
          break;
        case Op::kCycleStamp:
          StampCycles(i);
          break;
        case Op::kFloatingPoint:
          SetFloatingPoint(i);
          break;
        case Op::kPrint:
          Print(code_.prints[i.a]);
          if (!alone) return Stop::kHost;
          break;
        case Op::kAbort:
          throw application_runtime_error(code_.aborts[i.a].message);
      }
    }
  }

  // Copies arguments that are not contiguous to buffers, and gives the places of all.
  template <typename Pointer>
  void Before(const std::vector<Argument>& arguments, std::vector<Pointer>* places) {
    places->clear();
    for (const Argument& argument : arguments) {
      ApplyInParallel(argument.before, memory_, memory_);
      places->push_back(memory_.At(argument.place));
    }
  }
  // Copies buffers back to arguments that are not contiguous.
  void After(const std::vector<Argument>& arguments) {
    for (const Argument& argument : arguments) ApplyInParallel(argument.after, memory_, memory_);
  }

 private:
  bool IsZero(const Instruction& i) const {
    if (i.c == 1) return *memory_.At(i.a) == 0;
    uint32_t value;
    std::memcpy(&value, memory_.At(i.a), sizeof value);
    return value == 0;
  }

  int64_t CaseOf(const Instruction& i) const {
    int32_t control;
    std::memcpy(&control, memory_.At(i.c), sizeof control);
    const SwitchCode& table = code_.switches[i.a];
    for (const auto& [value, target] : table.cases) {
      if (value == control) return target;
    }
    return table.otherwise;
  }

  // Adds the cycles of a step.
  void Account(uint32_t step) {
    ExecutionProfile& profile = engine_.execution;
    if (number_ == 0 && profile.enabled) {
      ++profile.counts[step];
      if (traced_ && profile.trace.size() < kMostEntries) {
        profile.trace.push_back({step, replica_.cycles});
      }
    }
    replica_.cycles += engine_.cycles[step];
  }

  void StampCycles(const Instruction& i) {
    uint64_t cycles = replica_.cycles;
    if (i.b >= 0) {
      uint64_t start = 0;
      std::memcpy(&start, memory_.At(i.b), sizeof start);
      cycles = std::max<uint64_t>(1, cycles - start);
    }
    std::memcpy(memory_.At(i.a), &cycles, sizeof cycles);
  }

  void SetFloatingPoint(const Instruction& i) {
    unsigned bits = 0;
    std::memcpy(&bits, memory_.At(i.a), sizeof bits);
    bits = (bits & ~static_cast<unsigned>(i.b)) | static_cast<unsigned>(i.c);
    std::memcpy(memory_.At(i.a), &bits, sizeof bits);
    replica_.floating_point = bits;
  }

  void Execute(const ComputeSetCode& code, int64_t exit_code) {
    if (!code.before.empty()) ApplyInParallel(code.before, memory_, memory_);
    std::atomic<bool> success{true};
    const unsigned traps = replica_.floating_point & kTraps;
    for (const Batch& batch : code.batches) {
      const CodeletLibrary& library = *code_.libraries[batch.library];
      const VertexType& type = library.types()[batch.type];
      void (*const set_tile)(unsigned) = library.set_tile();
      // One thread for vertices whose tiles have static variables of their own.
      std::optional<StaticsInTurn> statics;
      if (!library.statics().empty()) {
        statics.emplace(library.statics(), &replica_.statics[batch.library]);
      }
      char* states = replica_.states->data() + batch.states;
      const unsigned workers =
          type.kind == VertexKind::MultiVertex ? kWorkers : 1;  // of one vertex, in order
      const size_t of_a_thread = statics ? batch.count : kVerticesOfAThread;
      ParallelFor(batch.count, of_a_thread, [&](size_t begin, size_t end) {
        bool all = true;
        size_t v = begin;
        try {
          if (traps != 0) ClearFloatStatus();
          for (; v < end; ++v) {
            if (statics) statics->Enter(code.tiles[batch.first + v]);
            if (set_tile != nullptr) set_tile(code.tiles[batch.first + v]);
            for (unsigned w = 0; w < workers; ++w) all &= type.run(states + v * batch.stride, w);
            if (traps != 0 && (FloatStatus() & traps) != 0) break;
          }
        } catch (const std::exception& error) {
          throw application_runtime_error(NameOf(code, batch, v) + " threw: " + error.what());
        } catch (...) {
          throw application_runtime_error(NameOf(code, batch, v) + " threw an exception.");
        }
        if (v < end) {
          throw application_runtime_error(NameOf(code, batch, v) + " had " +
                                          TrapText(FloatStatus() & traps) + ".");
        }
        if (!all) success = false;
      });
    }
    CheckGuards(code);
    if (!code.after.empty()) ApplyInParallel(code.after, memory_, memory_);
    if (exit_code >= 0) *memory_.At(exit_code) = success;
  }

  // A vertex, for messages.
  std::string NameOf(const ComputeSetCode& code, const Batch& batch, size_t vertex) const {
    return "Vertex '" + code_.libraries[batch.library]->types()[batch.type].name + "' (number " +
           std::to_string(batch.first + vertex) + ") on tile " +
           std::to_string(code.tiles[batch.first + vertex]) + " in compute set '" + code.name + "'";
  }

  // Throws if a vertex has written outside of a field.
  void CheckGuards(const ComputeSetCode& code) const {
    const auto changed = [](const char* bytes) {
      return std::any_of(bytes, bytes + kGuardBytes,
                         [](char byte) { return static_cast<unsigned char>(byte) != kGuardByte; });
    };
    for (const Guard& guard : code.guards) {
      const char* const begin = memory_.At(static_cast<int64_t>(guard.place));
      const bool before = changed(begin - kGuardBytes);
      if (!before && !changed(begin + guard.bytes)) continue;
      auto batch = code.batches.begin();
      while (guard.vertex >= batch->first + batch->count) ++batch;
      const VertexType& type = code_.libraries[batch->library]->types()[batch->type];
      throw application_runtime_error(NameOf(code, *batch, guard.vertex - batch->first) +
                                      " wrote " + (before ? "before the begin" : "behind the end") +
                                      " of its field '" + type.fields[guard.field].name +
                                      "', which has " + std::to_string(guard.bytes) + " bytes.");
    }
  }

  void StreamIn(const Instruction& i) {
    HostStream& stream = engine_.streams[i.a];
    char* const block = const_cast<char*>(stream.Take(number_));
    ApplyInParallel(code_.copies[i.b], {&block}, memory_);
    stream.Done(number_);
  }

  void StreamOut(const Instruction& i) {
    HostStream& stream = engine_.streams[i.a];
    char* const block = stream.Place(number_);
    ApplyInParallel(code_.copies[i.b], memory_, {&block});
    stream.Done(number_);
  }

  void Remote(const Instruction& i) {
    const BufferCode& code = code_.buffers[i.a];
    const CopyBlock& block = code_.copies[i.b];
    char* const rows = replica_.remote[i.a].data();
    std::vector<uint32_t> indices{0};
    if (i.c >= 0) {
      const Argument& argument = code_.calls[i.c].inputs[0];
      Apply(argument.before, memory_, memory_);
      indices.resize(argument.bytes / sizeof(uint32_t));
      std::memcpy(indices.data(), memory_.At(argument.place), argument.bytes);
    }
    buffer_.resize(indices.size() * code.row_bytes);
    char* const buffer = buffer_.data();
    const bool read = i.op == Op::kRemoteRead;
    if (!read) Apply(block, memory_, {&buffer});
    for (size_t r = 0; r < indices.size(); ++r) {
      if (indices[r] >= code.rows) {
        throw application_runtime_error("Row " + std::to_string(indices[r]) +
                                        " of the remote buffer '" + code.handle + "' of " +
                                        std::to_string(code.rows) + " rows does not exist.");
      }
      char* const row = rows + indices[r] * code.row_bytes;
      char* const part = buffer + r * code.row_bytes;
      std::memcpy(read ? part : row, read ? row : part, code.row_bytes);
    }
    if (read) Apply(block, {&buffer}, memory_);
  }

  void HostCall(const CallCode& call) {
    const auto function = engine_.host_functions.find({call.name, number_});
    if (function == engine_.host_functions.end()) {
      throw stream_connection_error(
          "The host function '" + call.name + "' is called, and nothing is connected to it" +
          (number_ > 0 ? " for replica " + std::to_string(number_) : std::string()) + ".");
    }
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    Before(call.inputs, &inputs);
    Before(call.outputs, &outputs);
    (*function->second.get())(inputs, outputs);
    After(call.outputs);
  }

  // Runs the op before the next instruction, and those in a chain with it.
  void RunLibraryOps() {
    const int64_t first = at_ - 1;
    const uint32_t length = engine_.chains[first];
    // Traps have to name an op.
    if (length == 0 || (replica_.floating_point & kTraps) != 0) {
      return LibraryOp(code_.instructions[first].a);
    }
    RunChain(first, length);
    for (; at_ < first + length; ++at_) Account(code_.instructions[at_].step);
  }

  // The places of an op's arguments, after copies of those that are not contiguous.
  const Places& Prepare(int64_t index) {
    const LibraryOpCode& op = code_.library_ops[index];
    Places& places = replica_.places[index];
    Before(op.inputs, &places.inputs);
    Before(op.outputs, &places.outputs);
    return places;
  }

  void RunChain(int64_t first, uint32_t length) {
    const auto op_of = [&](uint32_t link) { return code_.instructions[first + link].a; };
    const auto kernel_of = [&](uint32_t link) {
      return static_cast<BlockKernel*>(replica_.kernels[op_of(link)].get());
    };
    size_t host_cost = 0;
    for (uint32_t link = 0; link < length; ++link) {
      Prepare(op_of(link));
      host_cost += kernel_of(link)->hostCost();
    }
    const auto run_part = [&](size_t begin, size_t end) {
      std::vector<std::unique_ptr<BlockRun>> runs;
      runs.reserve(length);
      size_t block = end - begin;
      for (uint32_t link = 0; link < length; ++link) {
        const Places& places = replica_.places[op_of(link)];
        runs.push_back(kernel_of(link)->start(places.inputs, places.outputs));
        block = std::min(block, runs.back()->limit());
      }
      for (size_t at = begin; at < end; at += block) {
        const size_t count = std::min(block, end - at);
        for (const auto& run : runs) run->run(at, count);
      }
    };
    const size_t grain = std::max(BlockKernel::kBlock, grainOf(host_cost));
    ParallelFor(kernel_of(0)->count(), grain, std::cref(run_part));
  }

  void LibraryOp(int64_t index) {
    const LibraryOpCode& op = code_.library_ops[index];
    const Places& places = Prepare(index);
    const unsigned traps = replica_.floating_point & kTraps;
    if (traps != 0) ClearFloatStatus();
    replica_.kernels[index]->run(places.inputs, places.outputs);
    if ((FloatStatus() & traps) != 0) {
      throw application_runtime_error("The op '" + op.spec.name + "' (" + op.name + ") had " +
                                      TrapText(FloatStatus() & traps) + ".");
    }
    After(op.outputs);
  }

  void Print(const PrintCode& print) {
    Apply(print.tensor.before, memory_, memory_);
    *engine_.print << print.title << ": "
                   << TensorText(print.tensor.type, print.tensor.shape,
                                 memory_.At(print.tensor.place), print.format)
                   << std::endl;
  }

  static constexpr unsigned kWorkers = 6;
  static constexpr size_t kVerticesOfAThread = 64;
  // Steps in a trace.
  static constexpr size_t kMostEntries = 200000;

  EngineData& engine_;
  const ExecutableData& code_;
  Replica& replica_;
  const unsigned number_;
  const bool traced_;
  const AddressSpace memory_;
  std::vector<int64_t> counters_, returns_;
  int64_t at_;
  std::vector<char> buffer_;  // of rows of remote buffers
};

// Runs the step before which all replicas wait.
void Meet(const EngineData& engine, std::vector<Runner>* runners) {
  const Instruction& i = engine.code->instructions[runners->front().at()];
  if (runners->size() != engine.code->replicas) {
    throw application_runtime_error(
        "A step of all replicas, such as a collective of gcl, cannot run for one of them alone.");
  }
  if (i.op == Op::kMeet) {
    const LibraryOpCode& op = engine.code->library_ops[i.a];
    std::vector<std::vector<const void*>> inputs(runners->size());
    std::vector<std::vector<void*>> outputs(runners->size());
    for (size_t r = 0; r < runners->size(); ++r) {
      (*runners)[r].Before(op.inputs, &inputs[r]);
      (*runners)[r].Before(op.outputs, &outputs[r]);
    }
    engine.collectives[i.a]->run(inputs, outputs);
    for (Runner& runner : *runners) runner.After(op.outputs);
  } else {
    const ReplicaCopyCode& copy = engine.code->replica_copies[i.a];
    std::vector<char> bytes(copy.bytes * copy.replicas.size());
    char* block = bytes.data();
    for (const auto& [source, target] : copy.replicas) {
      Apply(copy.gather, (*runners)[source].memory(), {&block});
      block += copy.bytes;
    }
    block = bytes.data();
    for (const auto& [source, target] : copy.replicas) {
      Apply(copy.scatter, {&block}, (*runners)[target].memory());
      block += copy.bytes;
    }
  }
  for (Runner& runner : *runners) runner.Pass();
}

// Runs all replicas until each has ended or waits for the others. Returns whether all have ended.
bool RunToMeeting(std::vector<Runner>* runners) {
  const bool alone = runners->size() == 1;
  std::vector<Stop> stops(runners->size(), Stop::kHost);
  for (bool runs = true; runs;) {
    runs = false;
    for (size_t r = 0; r < runners->size(); ++r) {
      if (stops[r] != Stop::kHost) continue;
      stops[r] = (*runners)[r].Run(alone);
      runs = true;
    }
  }
  for (size_t r = 1; r < stops.size(); ++r) {
    if (stops[r] == stops[0] && (*runners)[r].at() == (*runners)[0].at()) continue;
    throw application_runtime_error(
        "Replicas 0 and " + std::to_string(r) +
        " do not meet: one is at a step of all replicas, the other at another step or at the end "
        "of the program. Conditions before such steps have to be equal on all replicas.");
  }
  return stops[0] == Stop::kEnd;
}

}  // namespace

void RunProgram(EngineData* engine, unsigned program, const std::string& name) {
  ExecutionProfile& profile = engine->execution;
  const uint64_t from = engine->replicas[0].cycles;
  const bool traced = profile.enabled && profile.number_of_runs < profile.traced_runs;
  if (traced) profile.runs.push_back({program, name, from, from, profile.trace.size(), 0});
  std::vector<Runner> runners;
  runners.reserve(engine->replicas.size());
  for (Replica& replica : engine->replicas) {
    runners.emplace_back(engine, &replica, engine->code->entries[program], traced);
  }
  while (!RunToMeeting(&runners)) Meet(*engine, &runners);
  for (HostStream& stream : engine->streams) stream.InvalidatePrefetched();
  ++profile.number_of_runs;
  if (!traced) return;
  profile.runs.back().to = engine->replicas[0].cycles;
  profile.runs.back().entries = profile.trace.size() - profile.runs.back().first_entry;
}

}  // namespace poplar::core
