#include "engine_options.h"

#include <set>
#include <string>

#include "poplar/exceptions.hpp"

namespace poplar::core {
namespace {

const std::set<std::string>& Names() {
  static const auto* names = new std::set<std::string>{
      "autoReport.all",
      "autoReport.directory",
      "autoReport.outputExecutionProfile",
      "autoReport.outputGraphProfile",
      "autoReport.executionProfileProgramRunCount",
      "autoReport.outputSerializedGraph",
      "autoReport.outputDebugInfo",
      "autoReport.outputArchive",
      "autoReport.outputLoweredVars",
      "autoReport.streamAtEachRun",
      "debug.instrument",
      "debug.instrumentCompute",
      "debug.instrumentControlFlow",
      "debug.instrumentExternalExchange",
      "debug.computeInstrumentationLevel",
      "debug.externalExchangeInstrumentationLevel",
      "debug.allowOutOfMemory",
      "debug.floatPointOpException",
      "debug.nanOverflowException",
      "debug.nanOverflowMode",
      "debug.retainDebugInformation",
      "debug.runtimeVerify",
      "debug.verify",
      "debug.loweredVarDumpFile",
      "debug.outputAllSymbols",
      "debug.trace",
      "debug.traceFile",
      "debug.executionProfile",
      "target.deterministicWorkers",
      "target.workerStackSizeInBytes",
      "target.supervisorStackSizeInBytes",
      "target.syncReplicasIndependently",
      "target.hostSyncTimeout",
      "target.saveArchive",
      "target.extendedMemory",
      "target.numberRuntimeReplica",
      "target.firstRuntimeReplica",
      "target.syncMethod",
      "target.gatewayMode",
      "opt.internalExchangeOptimisationTarget",
      "opt.enableMultiAccessCopies",
      "opt.useAutoloader",
      "opt.enableInlining",
      "opt.maxComputeSetsPerLoweredCopy",
      "opt.maxCompilationThreads",
      "opt.enableSkipSyncs",
      "exchange.streamBufferOverlap",
      "exchange.enablePrefetch",
      "exchange.multicastPolicy",
      "streamCallbacks.maxLookahead",
      "streamCallbacks.numWorkerThreads",
      "streamCallbacks.multiThreadMode",
      "streamCallbacks.numaAware",
      "profiler.programs.filter",
      "profiler.blocks.filter",
      "profiler.blocks.implicitFlush",
      "profiler.format",
      "profiler.includeCycleEstimates",
      "profiler.includeFlopEstimates",
      "prng.enableStochasticRounding",
      "prng.seed",
      "prng.enable",
  };
  return *names;
}

bool Has(const OptionFlags& options, const char* name, const char* value) {
  const auto option = options.find(name);
  return option != options.end() && option->second == value;
}

}  // namespace

bool PrefetchIsOn(const OptionFlags& options) {
  return Has(options, "exchange.enablePrefetch", "true") &&
         Has(options, "exchange.streamBufferOverlap", "none");
}

OptionFlags EngineOptions(const OptionFlags& given) {
  OptionFlags options = given;
  readJSONFromEnv("POPLAR_ENGINE_OPTIONS", options);
  for (const auto& [name, value] : options) {
    if (Names().count(name) == 0) {
      throw invalid_option("An engine has no option '" + name + "' (given: '" + value + "').");
    }
  }
  return options;
}

}  // namespace poplar::core
