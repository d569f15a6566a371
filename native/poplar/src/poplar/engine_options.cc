#include "engine_options.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "poplar/exceptions.hpp"

namespace poplar::core {
namespace {

// The values of an option: true and false, numbers, the named ones, or any text.
struct Values {
  enum Kind { kBool, kNumber, kNamed, kText } kind;
  std::vector<std::string> names = {};
};

const std::map<std::string, Values>& Options() {
  static const auto* options = new std::map<std::string, Values>{
      {"autoReport.all", {Values::kBool}},
      {"autoReport.directory", {Values::kText}},
      {"autoReport.outputExecutionProfile", {Values::kBool}},
      {"autoReport.outputGraphProfile", {Values::kBool}},
      {"autoReport.executionProfileProgramRunCount", {Values::kNumber}},
      {"autoReport.outputSerializedGraph", {Values::kBool}},
      {"autoReport.outputDebugInfo", {Values::kBool}},
      {"autoReport.outputArchive", {Values::kBool}},
      {"autoReport.outputLoweredVars", {Values::kBool}},
      {"autoReport.streamAtEachRun", {Values::kBool}},
      {"debug.instrument", {Values::kBool}},
      {"debug.instrumentCompute", {Values::kBool}},
      {"debug.instrumentControlFlow", {Values::kBool}},
      {"debug.instrumentExternalExchange", {Values::kBool}},
      {"debug.computeInstrumentationLevel", {Values::kNamed, {"vertex", "tile", "ipu", "device"}}},
      {"debug.externalExchangeInstrumentationLevel", {Values::kText}},
      {"debug.allowOutOfMemory", {Values::kBool}},
      {"debug.floatPointOpException", {Values::kBool}},
      {"debug.nanOverflowException", {Values::kBool}},
      {"debug.nanOverflowMode", {Values::kText}},
      {"debug.retainDebugInformation", {Values::kBool}},
      {"debug.runtimeVerify", {Values::kBool}},
      {"debug.verify", {Values::kBool}},
      {"debug.loweredVarDumpFile", {Values::kText}},
      {"debug.outputAllSymbols", {Values::kBool}},
      {"debug.trace", {Values::kBool}},
      {"debug.traceFile", {Values::kText}},
      {"debug.executionProfile", {Values::kText}},
      {"target.deterministicWorkers", {Values::kNamed, {"true", "false", "portable"}}},
      {"target.workerStackSizeInBytes", {Values::kNumber}},
      {"target.supervisorStackSizeInBytes", {Values::kNumber}},
      {"target.syncReplicasIndependently", {Values::kBool}},
      {"target.hostSyncTimeout", {Values::kNumber}},
      {"target.saveArchive", {Values::kText}},
      {"target.extendedMemory", {Values::kBool}},
      {"target.numberRuntimeReplica", {Values::kNumber}},
      {"target.firstRuntimeReplica", {Values::kNumber}},
      {"target.syncMethod", {Values::kText}},
      {"target.gatewayMode", {Values::kBool}},
      {"opt.internalExchangeOptimisationTarget",
       {Values::kNamed, {"memory", "balanced", "cycles"}}},
      {"opt.enableMultiAccessCopies", {Values::kBool}},
      {"opt.useAutoloader", {Values::kBool}},
      {"opt.enableInlining", {Values::kBool}},
      {"opt.maxComputeSetsPerLoweredCopy", {Values::kNumber}},
      {"opt.maxCompilationThreads", {Values::kNumber}},
      {"opt.enableSkipSyncs", {Values::kBool}},
      {"exchange.streamBufferOverlap", {Values::kNamed, {"any", "hostRearrangeOnly", "none"}}},
      {"exchange.enablePrefetch", {Values::kBool}},
      {"exchange.multicastPolicy", {Values::kText}},
      {"streamCallbacks.maxLookahead", {Values::kText}},
      {"streamCallbacks.numWorkerThreads", {Values::kText}},
      {"streamCallbacks.multiThreadMode",
       {Values::kNamed, {"singleThread", "collaborative", "dedicated"}}},
      {"streamCallbacks.numaAware", {Values::kBool}},
      {"profiler.programs.filter", {Values::kText}},
      {"profiler.blocks.filter", {Values::kText}},
      {"profiler.blocks.implicitFlush", {Values::kBool}},
      {"profiler.format", {Values::kText}},
      {"profiler.includeCycleEstimates", {Values::kBool}},
      {"profiler.includeFlopEstimates", {Values::kBool}},
      {"prng.enableStochasticRounding", {Values::kBool}},
      {"prng.seed", {Values::kNumber}},
      {"prng.enable", {Values::kBool}},
  };
  return *options;
}

// What an option takes, or empty if `value` is one of them.
std::string Expected(const Values& values, const std::string& value) {
  std::vector<std::string> names = values.names;
  switch (values.kind) {
    case Values::kText:
      return "";
    case Values::kNumber: {
      char* end = nullptr;
      std::strtod(value.c_str(), &end);
      return !value.empty() && *end == '\0' ? "" : "a number";
    }
    case Values::kBool:
      names = {"true", "false"};
      break;
    case Values::kNamed:
      break;
  }
  std::string text;
  for (const std::string& name : names) {
    if (name == value) return "";
    text += (text.empty() ? "" : ", ") + name;
  }
  return "one of: " + text;
}

}  // namespace

bool IsEngineOption(const std::string& name) { return Options().count(name) > 0; }

bool OptionIs(const OptionFlags& options, const char* name, const char* value) {
  const auto option = options.find(name);
  return option != options.end() && option->second == value;
}

uint64_t RunsInProfile(const OptionFlags& options) {
  constexpr uint64_t kDefault = 2;
  const auto option = options.find("autoReport.executionProfileProgramRunCount");
  return option == options.end() ? kDefault : std::strtoull(option->second.c_str(), nullptr, 10);
}

bool ChecksAreOn() {
  const char* value = std::getenv("TENSORFLOW_IPU_POPLAR_CHECKED");
  return value != nullptr && *value != '\0' && std::string(value) != "0";
}

bool PrefetchIsOn(const OptionFlags& options) {
  return OptionIs(options, "exchange.enablePrefetch", "true") &&
         OptionIs(options, "exchange.streamBufferOverlap", "none");
}

OptionFlags EngineOptions(const OptionFlags& given) {
  OptionFlags options = given;
  readJSONFromEnv("POPLAR_ENGINE_OPTIONS", options);
  for (const auto& [name, value] : options) {
    const auto option = Options().find(name);
    if (option == Options().end()) {
      throw invalid_option("An engine has no option '" + name + "' (given: '" + value + "').");
    }
    const std::string expected = Expected(option->second, value);
    if (expected.empty()) continue;
    throw invalid_option("The engine option '" + name + "' is " + expected + "; received '" +
                         value + "'.");
  }
  return options;
}

}  // namespace poplar::core
