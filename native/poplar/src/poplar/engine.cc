#include "poplar/Engine.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "access.h"
#include "engine_data.h"
#include "engine_options.h"
#include "executable_data.h"
#include "graph_data.h"
#include "profile.h"
#include "pva/pva.hpp"
#include "target_data.h"

namespace poplar {

using core::Access;
using core::ExecutableData;

namespace core {
namespace {

template <typename Map>
const typename Map::mapped_type& Find(const Map& map, StringRef handle, const char* what) {
  const auto found = map.find(handle.cloneAsString());
  if (found != map.end()) return found->second;
  throw stream_connection_error(std::string("There is no ") + what + " '" + handle.cloneAsString() +
                                "'.");
}

// Throws for a tile that has more than its memory. `profile_path` is that of the profile, or empty.
void CheckMemory(const ExecutableData& code, const std::string& profile_path) {
  if (!Access::Data(code.target)->HasLimit()) return;
  if (OptionIs(code.options, "debug.allowOutOfMemory", "true")) return;
  const ProfileData& profile = code.profile;
  std::vector<uint64_t> bytes(profile.variable_bytes.size());
  for (size_t t = 0; t < bytes.size(); ++t) {
    bytes[t] = profile.variable_bytes[t] + profile.constant_bytes[t];
  }
  const auto most = std::max_element(bytes.begin(), bytes.end());
  const uint64_t limit = code.target.getBytesPerTile();
  if (most == bytes.end() || *most <= limit) return;
  std::string message =
      "Out of memory: Cannot fit all variable data onto one or more tiles. Tile " +
      std::to_string(most - bytes.begin()) + ": " + std::to_string(*most) +
      " bytes used but tiles only have " + std::to_string(limit) + " bytes of memory.";
  if (!profile_path.empty()) message += " Profile saved to: " + profile_path;
  throw graph_memory_allocation_error(message);
}

std::shared_ptr<ExecutableData> CompileGraph(const Graph& graph,
                                             ArrayRef<program::Program> programs,
                                             const OptionFlags& options,
                                             const Engine::ProgressFunc& progress) {
  if (progress) progress(0, 1);
  const std::shared_ptr<ExecutableData> code =
      Lower(*Access::Data(graph), programs.cloneAsVector(), EngineOptions(options));
  CheckMemory(*code, WritesProfile(code->options) ? WriteProfile(*code, nullptr) : std::string());
  if (progress) progress(1, 1);
  return code;
}

}  // namespace
}  // namespace core

Executable compileGraph(const Graph& graph, ArrayRef<program::Program> programs,
                        const OptionFlags& options, Engine::ProgressFunc progress,
                        const DebugContext&) {
  Executable executable;
  Access::Data(executable) = core::CompileGraph(graph, programs, options, progress);
  return executable;
}

Executable compileGraph(const Graph& graph, ArrayRef<program::Program> programs,
                        bool checkOptionFlags, const OptionFlags& options,
                        Engine::ProgressFunc progress, const DebugContext& debugContext) {
  if (checkOptionFlags) return compileGraph(graph, programs, options, progress, debugContext);
  OptionFlags known;
  for (const auto& [name, value] : options) {
    if (core::IsEngineOption(name)) known.set(name, value);
  }
  return compileGraph(graph, programs, known, progress, debugContext);
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
  if (!executable.isAvailable()) throw poplar_error("Engine: the executable is empty.");
  for (const auto& [name, value] : core::EngineOptions(options)) {
    Access::Data(executable)->options.set(name, value);
  }
  data_ = core::MakeEngine(Access::Data(executable));
}

Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

// Files are best effort here: a destructor cannot tell of a full disk.
Engine::~Engine() {
  if (data_ == nullptr || !data_->execution.written) return;
  try {
    core::WriteProfile(*data_->code, data_.get());
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
}

RuntimeOptions::RuntimeOptions(const OptionFlags& options) { core::EngineOptions(options); }

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
void Engine::prepare(const Device& device, const RuntimeOptions&) { load(device); }
void Engine::deploy() {}

void Engine::run(unsigned program, const std::string& debugName) {
  if (!data_->loaded) throw poplar_error("Engine::run: the engine is not loaded.");
  if (program >= data_->code->entries.size()) {
    throw index_error("Engine::run: there is no program " + std::to_string(program) +
                      ": the engine has " + std::to_string(data_->code->entries.size()) + ".");
  }
  core::RunProgram(data_.get(), program, debugName);
  const core::ExecutionProfile& profile = data_->execution;
  if (profile.written && profile.number_of_runs <= profile.traced_runs) {
    core::WriteProfile(*data_->code, data_.get());
  }
}

void Engine::run(unsigned program, const std::string& debugName, const RuntimeOptions&) {
  run(program, debugName);
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
  char* block = static_cast<char*>(const_cast<void*>(begin));
  for (const core::Replica& replica : data_->replicas) {
    core::Apply(access.block, {&block}, replica.space());
    block += access.bytes;
  }
}

void Engine::writeTensor(StringRef handle, const void* begin, const void* end) {
  const auto& access = core::Find(data_->code->host_writes, handle, "host write");
  CheckBytes(static_cast<const char*>(end) - static_cast<const char*>(begin),
             access.bytes * data_->replicas.size(), handle);
  writeTensor(handle, begin);
}

void Engine::readTensor(StringRef handle, void* begin) {
  CheckLoaded(data_->loaded, "readTensor");
  const auto& access = core::Find(data_->code->host_reads, handle, "host read");
  char* block = static_cast<char*>(begin);
  for (const core::Replica& replica : data_->replicas) {
    core::Apply(access.block, replica.space(), {&block});
    block += access.bytes;
  }
}

void Engine::readTensor(StringRef handle, void* begin, void* end) {
  const auto& access = core::Find(data_->code->host_reads, handle, "host read");
  CheckBytes(static_cast<char*>(end) - static_cast<char*>(begin),
             access.bytes * data_->replicas.size(), handle);
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
  data_->streams[StreamOf(*data_->code, handle)].Connect(static_cast<char*>(begin),
                                                         static_cast<char*>(end));
}

void Engine::connectStream(StringRef handle, void* begin) {
  data_->streams[StreamOf(*data_->code, handle)].Connect(static_cast<char*>(begin), nullptr);
}

void Engine::connectStreamToCallback(StringRef handle, StreamCallbackHandle callback) {
  core::HostStream& stream = data_->streams[StreamOf(*data_->code, handle)];
  for (unsigned r = 0; r < data_->code->replicas; ++r) stream.Connect(r, callback.get());
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
  const size_t stream = StreamOf(*data_->code, handle);
  if (data_->code->streams[stream].broadcast) {
    connectStreamToCallback(handle, std::move(callback));
    return;
  }
  data_->streams[stream].Connect(replica, callback.get());
  data_->callbacks.push_back(std::move(callback));
}

void Engine::connectHostFunction(StringRef handle, unsigned replica, HostCallbackHandle callback) {
  CheckReplica(replica, *data_->code);
  const std::pair<std::string, unsigned> key(handle.cloneAsString(), replica);
  data_->host_functions.erase(key);
  data_->host_functions.emplace(key, std::move(callback));
}

namespace {

char* RowOf(const ExecutableData& code, const core::Replica& replica, StringRef handle,
            uint64_t row, uint64_t* bytes);

}  // namespace

void Engine::copyToRemoteBuffer(const void* from, StringRef handle, uint64_t row,
                                unsigned replica) {
  CheckReplica(replica, *data_->code);
  uint64_t bytes = 0;
  char* const place = RowOf(*data_->code, data_->replicas[replica], handle, row, &bytes);
  std::memcpy(place, from, bytes);
}

void Engine::copyFromRemoteBuffer(StringRef handle, void* to, uint64_t row, unsigned replica) {
  CheckReplica(replica, *data_->code);
  uint64_t bytes = 0;
  const char* const place = RowOf(*data_->code, data_->replicas[replica], handle, row, &bytes);
  std::memcpy(to, place, bytes);
}

namespace {

char* RowOf(const ExecutableData& code, const core::Replica& replica, StringRef handle,
            uint64_t row, uint64_t* bytes) {
  for (size_t i = 0; i < code.buffers.size(); ++i) {
    if (handle != StringRef(code.buffers[i].handle)) continue;
    if (row >= code.buffers[i].rows) {
      throw index_error("The remote buffer '" + handle.cloneAsString() + "' has no row " +
                        std::to_string(row) + ".");
    }
    *bytes = code.buffers[i].row_bytes;
    return replica.remote[i].data() + row * *bytes;
  }
  throw stream_connection_error("There is no remote buffer '" + handle.cloneAsString() + "'.");
}

}  // namespace

void Engine::insertSimulatedError(StringRef, StringRef) {
  throw poplar_error("Engine::insertSimulatedError: this device simulates no errors.");
}
void Engine::eraseSimulatedError(StringRef) {}
void Engine::clearSimulatedErrors() {}
std::vector<std::string> Engine::getSimulatedErrorLocations() const { return {}; }

std::vector<std::string> Engine::listStreams() const {
  std::vector<std::string> names;
  for (const auto& stream : data_->code->streams) names.push_back(stream.handle);
  return names;
}

OptionFlags Engine::getEngineOptions() const { return data_->code->options; }
void Engine::setPrintStream(std::ostream& stream) { data_->print = &stream; }
void Engine::setPrintTensorStream(std::ostream& stream) { data_->print = &stream; }

// ---- profiles

namespace {

void CheckProfiled(const ExecutableData& code) {
  if (code.target.getTargetType() != TargetType::CPU) return;
  throw profiling_disabled("A CPU has no profile: run the program on an IPU or a model of it.");
}

}  // namespace

ProfileValue Engine::getGraphProfile() {
  CheckProfiled(*data_->code);
  return core::GraphProfileOf(*data_->code);
}

ProfileValue Engine::getExecutionProfile() {
  CheckProfiled(*data_->code);
  if (!core::ExecutionIsProfiled(*data_->code)) {
    throw profiling_disabled(
        "The execution was not profiled: set the engine option debug.instrument to true.");
  }
  return core::ExecutionProfileOf(*data_);
}

ProfileValue Engine::getProfile() {
  ProfileValue::Map profile{{"graphProfile", getGraphProfile()}};
  if (core::ExecutionIsProfiled(*data_->code)) profile["executionProfile"] = getExecutionProfile();
  return profile;
}

pva::Report Engine::getReport(bool reportExecution) {
  CheckProfiled(*data_->code);
  const bool executes = reportExecution && core::ExecutionIsProfiled(*data_->code);
  return pva::Report(std::make_shared<const ProfileValue>(
      core::WholeProfile(*data_->code, executes ? data_.get() : nullptr)));
}

void Engine::printProfileSummary(std::ostream& os, const OptionFlags& options) {
  poplar::printProfileSummary(
      os, getGraphProfile(),
      core::ExecutionIsProfiled(*data_->code) ? getExecutionProfile() : ProfileValue(), options);
}

void Engine::resetExecutionProfile() {
  core::ExecutionProfile fresh;
  fresh.enabled = data_->execution.enabled;
  fresh.counts.assign(data_->execution.counts.size(), 0);
  data_->execution = std::move(fresh);
}

void Engine::disableExecutionProfiling() { data_->execution.enabled = false; }
void Engine::enableExecutionProfiling() { data_->execution.enabled = true; }

void Engine::reportIntervals(std::ostream& os) {
  os << "program,name,cycles from,cycles to\n";
  for (const core::ExecutionProfile::Run& run : data_->execution.runs) {
    os << run.program << "," << run.name << "," << run.from << "," << run.to << "\n";
  }
}

std::string Engine::reportTiming(const TimerTimePoint& begin, const TimerTimePoint& end) {
  const std::chrono::duration<double> seconds = end - begin;
  return std::to_string(seconds.count()) + " s";
}

}  // namespace poplar
