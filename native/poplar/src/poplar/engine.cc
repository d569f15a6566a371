#include "poplar/Engine.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "access.h"
#include "engine_options.h"
#include "executable_data.h"
#include "external.h"
#include "graph_data.h"
#include "kernels.h"
#include "parallel_for.h"
#include "print.h"
#include "target_data.h"
#include "types.h"

namespace poplar {

using core::Access;
using core::Argument;
using core::CopyBlock;
using core::ExecutableData;
using core::Instruction;
using core::Op;
using core::Segment;

namespace core {
namespace {

template <typename T>
void CopyElements(const Segment& s, const char* source, char* target) {
  for (uint64_t i = 0; i < s.count; ++i) {
    T element;
    std::memcpy(&element, source, sizeof element);
    std::memcpy(target, &element, sizeof element);
    source += s.source_step;
    target += s.target_step;
  }
}

void ApplySegment(const Segment& s, AddressSpace sources, AddressSpace targets) {
  const char* const source = sources.At(s.source);
  char* const target = targets.At(s.target);
  if (s.count == 1) {
    std::memcpy(target, source, s.size);
    return;
  }
  switch (s.size) {
    case 1:
      return CopyElements<uint8_t>(s, source, target);
    case 2:
      return CopyElements<uint16_t>(s, source, target);
    case 4:
      return CopyElements<uint32_t>(s, source, target);
    case 8:
      return CopyElements<uint64_t>(s, source, target);
    default:
      for (uint64_t i = 0; i < s.count; ++i) {
        std::memcpy(target + i * s.target_step, source + i * s.source_step, s.size);
      }
  }
}

// Bytes that are worth a thread.
constexpr uint64_t kBytesOfAThread = 1 << 18;

}  // namespace

uint64_t BytesOf(const CopyBlock& block) {
  uint64_t bytes = 0;
  for (const Segment& segment : block) bytes += segment.count * segment.size;
  return bytes;
}

void Apply(const CopyBlock& block, AddressSpace source, AddressSpace target) {
  for (const Segment& segment : block) ApplySegment(segment, source, target);
}

namespace {

// Memory of a device: aligned, and zeros without being touched.
class Memory {
 public:
  explicit Memory(uint64_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, std::max<uint64_t>(bytes, 64)) != 0) throw std::bad_alloc();
    std::memset(memory, 0, bytes);
    data_.reset(static_cast<char*>(memory));
  }
  char* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;
};

}  // namespace

struct EngineData {
  std::shared_ptr<ExecutableData> code;
  std::unique_ptr<Memory> memory, states;
  std::vector<char*> regions;                              // of places
  std::vector<std::vector<const Fixup*>> external_fixups;  // of each external variable
  std::vector<std::unique_ptr<Memory>> remote;             // of the remote buffers
  std::vector<StreamCallbackHandle> callbacks;
  std::map<std::string, HostCallbackHandle> host_functions;
  struct Stream {
    char* begin = nullptr;
    char* end = nullptr;
    char* next = nullptr;
    StreamCallback* callback = nullptr;
  };
  std::vector<Stream> streams;
  std::vector<std::unique_ptr<Kernel>> kernels;  // of the libraries' ops
  std::vector<char> buffer;                      // for elements on their way
  std::ostream* print = &std::cerr;
  bool loaded = false;
};

namespace {

// Runs instructions.
class Runner {
 public:
  explicit Runner(EngineData* engine)
      : engine_(*engine),
        code_(*engine->code),
        memory_{engine->regions.data()},
        counters_(code_.counters, 0) {}

  void Run(int64_t entry) {
    std::vector<int64_t> returns;
    int64_t at = entry;
    while (true) {
      const Instruction& i = code_.instructions[at++];
      switch (i.op) {
        case Op::kCopy:
          Move(code_.copies[i.a], memory_, memory_);
          break;
        case Op::kExecute:
          Execute(code_.compute_sets[i.a], i.b);
          break;
        case Op::kStreamIn:
          StreamIn(i);
          break;
        case Op::kStreamOut:
          StreamOut(i);
          break;
        case Op::kRemoteRead:
        case Op::kRemoteWrite:
          Remote(i);
          break;
        case Op::kLoopBegin:
          counters_[i.a] = i.b;
          break;
        case Op::kLoopEnd:
          if (--counters_[i.a] > 0) at = i.b;
          break;
        case Op::kJump:
          at = i.b;
          break;
        case Op::kJumpIfZero:
          if (IsZero(i)) at = i.b;
          break;
        case Op::kJumpIfNotZero:
          if (!IsZero(i)) at = i.b;
          break;
        case Op::kSwitch:
          at = CaseOf(i);
          break;
        case Op::kCall:
          returns.push_back(at);
          at = i.b;
          break;
        case Op::kReturn:
          if (returns.empty()) return;
          at = returns.back();
          returns.pop_back();
          break;
        case Op::kHostCall:
          HostCall(code_.calls[i.a]);
          break;
        case Op::kLibraryOp:
          LibraryOp(i.a);
          break;
        case Op::kPrint:
          Print(code_.prints[i.a]);
          break;
        case Op::kAbort:
          throw application_runtime_error(code_.aborts[i.a].message);
      }
    }
  }

 private:
  static void Move(const CopyBlock& block, AddressSpace source, AddressSpace target) {
    if (block.size() < 2 || BytesOf(block) < kBytesOfAThread) {
      Apply(block, source, target);
      return;
    }
    ParallelFor(block.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ApplySegment(block[i], source, target);
    });
  }

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

  void Execute(const ComputeSetCode& code, int64_t exit_code) {
    if (!code.before.empty()) Move(code.before, memory_, memory_);
    std::atomic<bool> success{true};
    for (const Batch& batch : code.batches) {
      const VertexType& type = code_.libraries[batch.library]->types()[batch.type];
      char* states = engine_.states->data() + batch.states;
      const unsigned workers =
          type.kind == VertexKind::MultiVertex ? kWorkers : 1;  // of one vertex, in order
      ParallelFor(batch.count, kVerticesOfAThread, [&](size_t begin, size_t end) {
        bool all = true;
        for (size_t v = begin; v < end; ++v) {
          for (unsigned w = 0; w < workers; ++w) all &= type.run(states + v * batch.stride, w);
        }
        if (!all) success = false;
      });
    }
    if (!code.after.empty()) Move(code.after, memory_, memory_);
    if (exit_code >= 0) *memory_.At(exit_code) = success;
  }

  char* Buffer(uint64_t bytes) {
    if (engine_.buffer.size() < bytes) engine_.buffer.resize(bytes);
    return engine_.buffer.data();
  }

  // The array of a transfer, or null for a callback.
  char* Next(EngineData::Stream* stream, const StreamCode& code) {
    if (stream->callback != nullptr) return nullptr;
    if (stream->begin == nullptr) {
      throw stream_connection_error("The stream '" + code.handle +
                                    "' is used, and nothing is connected to it.");
    }
    if (stream->end == nullptr) return stream->begin;
    if (stream->next + code.bytes > stream->end) stream->next = stream->begin;
    char* const place = stream->next;
    stream->next += code.bytes;
    return place;
  }

  void StreamIn(const Instruction& i) {
    const StreamCode& code = code_.streams[i.a];
    EngineData::Stream& stream = engine_.streams[i.a];
    char* place = Next(&stream, code);
    if (place == nullptr) {
      place = Buffer(code.bytes);
      stream.callback->fetch(place);
      stream.callback->complete();
    }
    Move(code_.copies[i.b], {&place}, memory_);
  }

  void StreamOut(const Instruction& i) {
    const StreamCode& code = code_.streams[i.a];
    EngineData::Stream& stream = engine_.streams[i.a];
    char* const place = Next(&stream, code);
    char* const buffer = place == nullptr ? Buffer(code.bytes) : place;
    Move(code_.copies[i.b], memory_, {&buffer});
    if (place != nullptr) return;
    stream.callback->fetch(buffer);
    stream.callback->complete();
  }

  void Remote(const Instruction& i) {
    const BufferCode& code = code_.buffers[i.a];
    const CopyBlock& block = code_.copies[i.b];
    char* const rows = engine_.remote[i.a]->data();
    std::vector<uint32_t> indices{0};
    if (i.c >= 0) {
      const Argument& argument = code_.calls[i.c].inputs[0];
      Apply(argument.before, memory_, memory_);
      indices.resize(argument.bytes / sizeof(uint32_t));
      std::memcpy(indices.data(), memory_.At(argument.place), argument.bytes);
    }
    const uint64_t bytes = indices.size() * code.row_bytes;
    char* const buffer = Buffer(bytes);
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
    const auto function = engine_.host_functions.find(call.name);
    if (function == engine_.host_functions.end()) {
      throw stream_connection_error("The host function '" + call.name +
                                    "' is called, and nothing is connected to it.");
    }
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const Argument& input : call.inputs) {
      Apply(input.before, memory_, memory_);
      inputs.push_back(memory_.At(input.place));
    }
    for (const Argument& output : call.outputs) outputs.push_back(memory_.At(output.place));
    (*function->second.get())(inputs, outputs);
    for (const Argument& output : call.outputs) Apply(output.after, memory_, memory_);
  }

  void LibraryOp(int64_t index) {
    const LibraryOpCode& op = code_.library_ops[index];
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const Argument& input : op.inputs) {
      Move(input.before, memory_, memory_);
      inputs.push_back(memory_.At(input.place));
    }
    for (const Argument& output : op.outputs) {
      Move(output.before, memory_, memory_);
      outputs.push_back(memory_.At(output.place));
    }
    engine_.kernels[index]->run(inputs, outputs);
    for (const Argument& output : op.outputs) Move(output.after, memory_, memory_);
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

  EngineData& engine_;
  const ExecutableData& code_;
  const AddressSpace memory_;
  std::vector<int64_t> counters_;
};

template <typename Map>
const typename Map::mapped_type& Find(const Map& map, StringRef handle, const char* what) {
  const auto found = map.find(handle.cloneAsString());
  if (found != map.end()) return found->second;
  throw stream_connection_error(std::string("There is no ") + what + " '" + handle.cloneAsString() +
                                "'.");
}

void Load(EngineData* engine) {
  const ExecutableData& code = *engine->code;
  engine->memory = std::make_unique<Memory>(code.memory);
  engine->states = std::make_unique<Memory>(code.states.size());
  char* const memory = engine->memory->data();
  char* const states = engine->states->data();
  engine->regions.assign(1 + code.externals.size(), nullptr);
  engine->regions[0] = memory;
  for (const InitialValue& value : code.initial) {
    for (uint64_t r = 0; r < value.repeats; ++r) {
      std::memcpy(memory + value.place + r * value.bytes.size(), value.bytes.data(),
                  value.bytes.size());
    }
  }
  if (!code.states.empty()) std::memcpy(states, code.states.data(), code.states.size());
  engine->external_fixups.assign(code.externals.size(), {});
  for (const Fixup& fixup : code.fixups) {
    const uint64_t region = fixup.in_states ? 0 : fixup.target >> kRegionShift;
    if (region > 0) {
      engine->external_fixups[region - 1].push_back(&fixup);
      continue;
    }
    char* const pointer = (fixup.in_states ? states : memory) + fixup.target;
    std::memcpy(states + fixup.at, &pointer, sizeof pointer);
  }
  if (engine->remote.empty()) {
    for (const BufferCode& buffer : code.buffers) {
      engine->remote.push_back(std::make_unique<Memory>(buffer.row_bytes * buffer.rows));
    }
  }
  engine->kernels.clear();
  for (const LibraryOpCode& op : code.library_ops) engine->kernels.push_back(MakeKernel(op.spec));
  engine->loaded = true;
}

std::unique_ptr<EngineData> MakeEngine(std::shared_ptr<ExecutableData> code) {
  auto engine = std::make_unique<EngineData>();
  engine->streams.resize(code->streams.size());
  engine->code = std::move(code);
  for (const BufferCode& buffer : engine->code->buffers) {
    engine->remote.push_back(std::make_unique<Memory>(buffer.row_bytes * buffer.rows));
  }
  return engine;
}

std::shared_ptr<ExecutableData> CompileGraph(const Graph& graph,
                                             ArrayRef<program::Program> programs,
                                             const OptionFlags& options,
                                             const Engine::ProgressFunc& progress) {
  if (progress) progress(0, 1);
  const std::shared_ptr<ExecutableData> code =
      Lower(*Access::Data(graph), programs.cloneAsVector(), EngineOptions(options));
  if (progress) progress(1, 1);
  return code;
}

}  // namespace

void LoadWithoutDevice(Engine* engine) { Load(Access::Data(*engine)); }

void BindExternal(Engine* engine, size_t external, void* address) {
  EngineData& data = *Access::Data(*engine);
  char*& region = data.regions[external + 1];
  if (region == address) return;
  region = static_cast<char*>(address);
  const AddressSpace space{data.regions.data()};
  for (const Fixup* fixup : data.external_fixups[external]) {
    char* const pointer = space.At(static_cast<int64_t>(fixup->target));
    std::memcpy(data.states->data() + fixup->at, &pointer, sizeof pointer);
  }
}

}  // namespace core

Executable compileGraph(const Graph& graph, ArrayRef<program::Program> programs,
                        const OptionFlags& options, Engine::ProgressFunc progress,
                        const DebugContext&) {
  Executable executable;
  Access::Data(executable) = core::CompileGraph(graph, programs, options, progress);
  return executable;
}

Executable compileGraph(Graph&& graph, ArrayRef<program::Program> programs,
                        const OptionFlags& options, Engine::ProgressFunc progress,
                        const DebugContext& debugContext) {
  return compileGraph(static_cast<const Graph&>(graph), programs, options, progress, debugContext);
}

Engine::Engine(const Graph& graph, ArrayRef<program::Program> programs, const OptionFlags& options,
               ProgressFunc progress, const DebugContext&)
    : data_(core::MakeEngine(core::CompileGraph(graph, programs, options, progress))) {}

Engine::Engine(Graph&& graph, ArrayRef<program::Program> programs, const OptionFlags& options,
               ProgressFunc progress, const DebugContext& debugContext)
    : Engine(static_cast<const Graph&>(graph), programs, options, progress, debugContext) {}

Engine::Engine(const Graph& graph, program::Program program, const OptionFlags& options,
               ProgressFunc progress, const DebugContext& debugContext)
    : Engine(graph, ArrayRef<program::Program>(&program, 1), options, progress, debugContext) {}

Engine::Engine(Graph&& graph, program::Program program, const OptionFlags& options,
               ProgressFunc progress, const DebugContext& debugContext)
    : Engine(static_cast<const Graph&>(graph), program, options, progress, debugContext) {}

Engine::Engine(Executable&& executable, const OptionFlags& options) {
  core::EngineOptions(options);
  if (!executable.isAvailable()) throw poplar_error("Engine: the executable is empty.");
  data_ = core::MakeEngine(Access::Data(executable));
}

Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

void Engine::load(const Device& device) {
  const Target& target = device.getTarget();
  const Target& compiled = data_->code->target;
  const bool fits = target.getTargetType() == compiled.getTargetType() &&
                    target.getTilesPerIPU() == compiled.getTilesPerIPU() &&
                    target.getNumIPUs() == compiled.getNumIPUs() * data_->code->replicas;
  if (!fits) {
    throw poplar_error("Engine::load: the programs were compiled for another target: " +
                       toString(compiled.getTargetType()) + " with " +
                       std::to_string(compiled.getNumTiles()) + " tiles, not " +
                       toString(target.getTargetType()) + " with " +
                       std::to_string(target.getNumTiles()) + ".");
  }
  if (target.getTargetType() == TargetType::IPU && !device.isAttached()) {
    throw poplar_error("Engine::load: the device is not attached.");
  }
  core::Load(data_.get());
}

void Engine::prepare(const Device& device) { load(device); }
void Engine::deploy() {}

void Engine::run(unsigned program, const std::string&) {
  if (!data_->loaded) throw poplar_error("Engine::run: the engine is not loaded.");
  if (program >= data_->code->entries.size()) {
    throw index_error("Engine::run: there is no program " + std::to_string(program) +
                      ": the engine has " + std::to_string(data_->code->entries.size()) + ".");
  }
  core::Runner(data_.get()).Run(data_->code->entries[program]);
}

void Engine::loadAndRun(const Device& device, unsigned program) {
  load(device);
  run(program);
}

namespace {

void CheckLoaded(bool loaded, const char* function) {
  if (!loaded) {
    throw poplar_error(std::string("Engine::") + function + ": the engine is not loaded.");
  }
}

void CheckBytes(uint64_t given, uint64_t needed, StringRef handle) {
  if (given == needed) return;
  throw stream_connection_error("'" + handle.cloneAsString() + "' has " + std::to_string(needed) +
                                " bytes, the array " + std::to_string(given) + ".");
}

}  // namespace

void Engine::writeTensor(StringRef handle, const void* begin) {
  CheckLoaded(data_->loaded, "writeTensor");
  const auto& access = core::Find(data_->code->host_writes, handle, "host write");
  char* host = static_cast<char*>(const_cast<void*>(begin));
  core::Apply(access.block, {&host}, {data_->regions.data()});
}

void Engine::writeTensor(StringRef handle, const void* begin, const void* end) {
  const auto& access = core::Find(data_->code->host_writes, handle, "host write");
  CheckBytes(static_cast<const char*>(end) - static_cast<const char*>(begin), access.bytes, handle);
  writeTensor(handle, begin);
}

void Engine::readTensor(StringRef handle, void* begin) {
  CheckLoaded(data_->loaded, "readTensor");
  const auto& access = core::Find(data_->code->host_reads, handle, "host read");
  char* host = static_cast<char*>(begin);
  core::Apply(access.block, {data_->regions.data()}, {&host});
}

void Engine::readTensor(StringRef handle, void* begin, void* end) {
  const auto& access = core::Find(data_->code->host_reads, handle, "host read");
  CheckBytes(static_cast<char*>(end) - static_cast<char*>(begin), access.bytes, handle);
  readTensor(handle, begin);
}

namespace {

size_t StreamOf(const ExecutableData& code, StringRef handle) {
  for (size_t i = 0; i < code.streams.size(); ++i) {
    if (handle == StringRef(code.streams[i].handle)) return i;
  }
  throw stream_connection_error("There is no stream '" + handle.cloneAsString() + "'.");
}

}  // namespace

void Engine::connectStream(StringRef handle, void* begin, void* end) {
  const size_t stream = StreamOf(*data_->code, handle);
  char* const first = static_cast<char*>(begin);
  char* const last = static_cast<char*>(end);
  const uint64_t bytes = data_->code->streams[stream].bytes;
  if (static_cast<uint64_t>(last - first) < bytes) {
    throw stream_connection_error("A transfer of the stream '" + handle.cloneAsString() + "' has " +
                                  std::to_string(bytes) + " bytes, the array " +
                                  std::to_string(last - first) + ".");
  }
  data_->streams[stream] = {first, last, first, nullptr};
}

void Engine::connectStream(StringRef handle, void* begin) {
  data_->streams[StreamOf(*data_->code, handle)] = {static_cast<char*>(begin), nullptr, nullptr,
                                                    nullptr};
}

void Engine::connectStreamToCallback(StringRef handle, StreamCallbackHandle callback) {
  const size_t stream = StreamOf(*data_->code, handle);
  data_->streams[stream] = {nullptr, nullptr, nullptr, callback.get()};
  data_->callbacks.push_back(std::move(callback));
}

namespace {

void CheckReplica(unsigned replica, const ExecutableData& code) {
  if (replica < code.replicas) return;
  throw index_error("There is no replica " + std::to_string(replica) + ": the program runs on " +
                    std::to_string(code.replicas) + ".");
}

}  // namespace

void Engine::connectStreamToCallback(StringRef handle, unsigned replica,
                                     StreamCallbackHandle callback) {
  CheckReplica(replica, *data_->code);
  connectStreamToCallback(handle, std::move(callback));
}

void Engine::connectHostFunction(StringRef handle, unsigned replica, HostCallbackHandle callback) {
  CheckReplica(replica, *data_->code);
  data_->host_functions.erase(handle.cloneAsString());
  data_->host_functions.emplace(handle.cloneAsString(), std::move(callback));
}

namespace {

char* RowOf(const ExecutableData& code, core::EngineData* engine, StringRef handle, uint64_t row,
            uint64_t* bytes);

}  // namespace

void Engine::copyToRemoteBuffer(const void* from, StringRef handle, uint64_t row,
                                unsigned replica) {
  CheckReplica(replica, *data_->code);
  uint64_t bytes = 0;
  char* const place = RowOf(*data_->code, data_.get(), handle, row, &bytes);
  std::memcpy(place, from, bytes);
}

void Engine::copyFromRemoteBuffer(StringRef handle, void* to, uint64_t row, unsigned replica) {
  CheckReplica(replica, *data_->code);
  uint64_t bytes = 0;
  const char* const place = RowOf(*data_->code, data_.get(), handle, row, &bytes);
  std::memcpy(to, place, bytes);
}

namespace {

char* RowOf(const ExecutableData& code, core::EngineData* engine, StringRef handle, uint64_t row,
            uint64_t* bytes) {
  for (size_t i = 0; i < code.buffers.size(); ++i) {
    if (handle != StringRef(code.buffers[i].handle)) continue;
    if (row >= code.buffers[i].rows) {
      throw index_error("The remote buffer '" + handle.cloneAsString() + "' has no row " +
                        std::to_string(row) + ".");
    }
    *bytes = code.buffers[i].row_bytes;
    return engine->remote[i]->data() + row * *bytes;
  }
  throw stream_connection_error("There is no remote buffer '" + handle.cloneAsString() + "'.");
}

}  // namespace

std::vector<std::string> Engine::listStreams() const {
  std::vector<std::string> names;
  for (const auto& stream : data_->code->streams) names.push_back(stream.handle);
  return names;
}

OptionFlags Engine::getEngineOptions() const { return data_->code->options; }
void Engine::setPrintStream(std::ostream& stream) { data_->print = &stream; }
void Engine::setPrintTensorStream(std::ostream& stream) { data_->print = &stream; }

std::string Engine::reportTiming(const TimerTimePoint& begin, const TimerTimePoint& end) {
  const std::chrono::duration<double> seconds = end - begin;
  return std::to_string(seconds.count()) + " s";
}

}  // namespace poplar
