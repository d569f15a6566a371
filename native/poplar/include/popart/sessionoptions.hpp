// Options of a session that operations ask for.
#ifndef popart_sessionoptions_hpp
#define popart_sessionoptions_hpp

#include <popart/basicoptionals.hpp>

namespace popart {

enum class VirtualGraphMode { Off = 0, Manual, Auto, ExecutionPhases, N };
enum class RecomputationType { None = 0, Standard, NormOnly, Pipeline, RecomputeAll, N };
enum class SyntheticDataMode { Off = 0, Zeros, RandomNormal, RandomUniform, N };

struct SessionOptions {
  bool enableReplicatedGraphs = false;
  int64_t replicatedGraphCount = 1;
  bool enableDistributedReplicatedGraphs = false;
  int64_t globalReplicationFactor = 1;
  int64_t globalReplicaOffset = 0;
  bool enableGradientAccumulation = false;
  int64_t accumulationFactor = 1;
  bool enablePipelining = false;
  bool enableOutlining = true;
  bool enableStochasticRounding = false;
  bool enableFullyConnectedPass = true;
  bool enableSupportedDataTypeCasting = true;
  bool enableStableNorm = false;
  bool enableNonStableSoftmax = false;
  bool enableGatherSimplifier = true;
  bool groupHostSync = false;
  bool opxAliasChecking = false;
  bool opxModifyChecking = false;
  VirtualGraphMode virtualGraphMode = VirtualGraphMode::Off;
  RecomputationType autoRecomputation = RecomputationType::None;
  SyntheticDataMode syntheticDataMode = SyntheticDataMode::Off;
  std::string partialsTypeMatMuls;
  std::map<std::string, std::string> engineOptions, convolutionOptions, gclOptions, matmulOptions,
      lstmOptions, reportOptions;

  int64_t getGlobalReplicationFactor() const {
    return enableDistributedReplicatedGraphs ? globalReplicationFactor : getReplicationFactor();
  }
  int64_t getReplicationFactor() const { return enableReplicatedGraphs ? replicatedGraphCount : 1; }
  unsigned getAccumulationFactor() const { return static_cast<unsigned>(accumulationFactor); }
  bool autoRecomputationEnabled() const { return autoRecomputation != RecomputationType::None; }
};

}  // namespace popart

#endif  // popart_sessionoptions_hpp
