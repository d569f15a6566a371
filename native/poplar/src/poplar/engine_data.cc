#include "engine_data.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "access.h"
#include "chains.h"
#include "engine_options.h"
#include "external.h"
#include "kernels.h"
#include "profile.h"
#include "registers.h"

namespace poplar::core {

Memory::Memory(uint64_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, std::max<uint64_t>(bytes, 64)) != 0) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  data_.reset(static_cast<char*>(memory));
}

void Memory::Free::operator()(char* data) const { std::free(data); }

namespace {

void SetInitialValues(const ExecutableData& code, unsigned number, char* memory) {
  for (const InitialValue& value : code.initial) {
    for (uint64_t r = 0; r < value.repeats; ++r) {
      std::memcpy(memory + value.place + r * value.bytes.size(), value.bytes.data(),
                  value.bytes.size());
    }
  }
  for (const uint64_t place : code.replica_indices) {
    std::memcpy(memory + place, &number, sizeof number);
  }
}

unsigned RegisterAtStart(const OptionFlags& options) {
  unsigned bits = kRegisterAtStart;
  if (OptionIs(options, "debug.floatPointOpException", "true")) bits |= kTraps;
  if (OptionIs(options, "debug.nanOverflowException", "true")) bits |= kTrapOverflow;
  if (OptionIs(options, "prng.enableStochasticRounding", "true")) bits |= kStochasticRounding;
  return bits;
}

void SetGuards(const ExecutableData& code, char* memory) {
  for (const ComputeSetCode& set : code.compute_sets) {
    for (const Guard& guard : set.guards) {
      std::memset(memory + guard.place - kGuardBytes, kGuardByte, kGuardBytes);
      std::memset(memory + guard.place + guard.bytes, kGuardByte, kGuardBytes);
    }
  }
}

void SetStates(const ExecutableData& code, Replica* replica) {
  char* const memory = replica->memory->data();
  char* const states = replica->states->data();
  if (!code.states.empty()) std::memcpy(states, code.states.data(), code.states.size());
  replica->external_fixups.assign(code.externals.size(), {});
  for (const Fixup& fixup : code.fixups) {
    const uint64_t region = fixup.in_states ? 0 : fixup.target >> kRegionShift;
    if (region > 0) {
      replica->external_fixups[region - 1].push_back(&fixup);
      continue;
    }
    char* const pointer = (fixup.in_states ? states : memory) + fixup.target;
    std::memcpy(states + fixup.at, &pointer, sizeof pointer);
  }
}

}  // namespace

std::unique_ptr<EngineData> MakeEngine(std::shared_ptr<ExecutableData> code) {
  auto engine = std::make_unique<EngineData>();
  engine->replicas.resize(code->replicas);
  for (unsigned r = 0; r < code->replicas; ++r) {
    Replica& replica = engine->replicas[r];
    replica.number = r;
    for (const BufferCode& buffer : code->buffers) {
      replica.remote.emplace_back(buffer.row_bytes * buffer.rows);
    }
  }
  for (const StreamCode& stream : code->streams) {
    const unsigned prefetch =
        stream.depth > 1 || PrefetchIsOn(code->options) ? std::max(1u, stream.depth) : 0;
    engine->streams.emplace_back(stream, code->replicas, prefetch);
  }
  for (const StepProfile& step : code->profile.steps) engine->cycles.push_back(step.Cycles());
  engine->execution.counts.assign(code->profile.steps.size(), 0);
  engine->execution.written = WritesProfile(code->options);
  engine->execution.traced_runs = RunsInProfile(code->options);
  engine->code = std::move(code);
  return engine;
}

void Load(EngineData* engine) {
  const ExecutableData& code = *engine->code;
  for (Replica& replica : engine->replicas) {
    replica.memory = std::make_unique<Memory>(code.memory);
    replica.states = std::make_unique<Memory>(code.states.size());
    replica.regions.assign(1 + code.externals.size(), nullptr);
    replica.regions[0] = replica.memory->data();
    SetInitialValues(code, replica.number, replica.memory->data());
    SetStates(code, &replica);
    SetGuards(code, replica.memory->data());
    replica.cycles = 0;
    replica.floating_point = RegisterAtStart(code.options);
    if (code.floating_point_register >= 0) {
      std::memcpy(replica.space().At(code.floating_point_register), &replica.floating_point,
                  sizeof replica.floating_point);
    }
    replica.statics.assign(code.libraries.size(), {});
    replica.kernels.clear();
    replica.places.resize(code.library_ops.size());
    for (const LibraryOpCode& op : code.library_ops) {
      replica.kernels.push_back(op.collective ? nullptr : MakeKernel(op.spec));
    }
  }
  engine->chains = FindChains(code, engine->replicas[0].kernels);
  engine->collectives.clear();
  for (const LibraryOpCode& op : code.library_ops) {
    engine->collectives.push_back(op.collective ? MakeCollective(op.spec) : nullptr);
  }
  engine->loaded = true;
}

void LoadWithoutDevice(Engine* engine, unsigned replica) {
  EngineData* const data = Access::Data(*engine);
  data->replicas.resize(1);
  data->replicas[0].number = replica;
  Load(data);
}

void LoadAllWithoutDevice(Engine* engine) { Load(Access::Data(*engine)); }

void BindExternal(Engine* engine, size_t replica, size_t external, void* address) {
  Replica& of = Access::Data(*engine)->replicas[replica];
  char*& region = of.regions[external + 1];
  if (region == address) return;
  region = static_cast<char*>(address);
  for (const Fixup* fixup : of.external_fixups[external]) {
    char* const pointer = of.space().At(static_cast<int64_t>(fixup->target));
    std::memcpy(of.states->data() + fixup->at, &pointer, sizeof pointer);
  }
}

}  // namespace poplar::core
