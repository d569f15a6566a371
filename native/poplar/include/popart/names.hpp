// Names of types, and of the attributes with which nodes say where and how they run.
#ifndef popart_names_hpp
#define popart_names_hpp

#include <popart/detail/stl.hpp>

namespace popart {

namespace view {
class Region;
using Regions = std::vector<Region>;
using RegMap = std::function<Regions(const Region &)>;
using LowBounds = std::vector<int64_t>;
using UppBounds = std::vector<int64_t>;
}  // namespace view

class Op;
class Tensor;

using Shape = std::vector<int64_t>;
using Rank = int;
using TensorId = std::string;
using OpName = std::string;
using OpDomain = std::string;
using OpType = std::string;
using OpVersion = unsigned;
using OpId = int;
using InIndex = int;
using OutIndex = int;
using ReturnPeriod = int;
using SubgraphIndex = int;
using OpxGrowPartId = int;
using ReplicaIndex = int;
using VGraphId = int64_t;
using PipelineStage = int64_t;
using ExecutionPhase = int64_t;
using BatchSerializedPhase = int64_t;
using StashIndex = int64_t;
using DnfTensorIds = std::vector<std::set<TensorId>>;
using ReplicatedTensorShardingIndices = std::set<std::pair<std::set<InIndex>, std::set<OutIndex>>>;
using ReplicatedTensorShardingIndicesIndex = int;
using Node = ONNX_NAMESPACE::NodeProto;
using OpsBeforeKey = std::map<Op *, std::vector<Op *>>;

static constexpr VGraphId unusedVGraphId = -1;
static constexpr PipelineStage unusedPipelineStage = -1;
static constexpr ExecutionPhase unusedExecutionPhase = -2;
static constexpr BatchSerializedPhase unusedBatchSerializedPhase = -2;

static constexpr const char *sNameDelimiter = "/";
static constexpr const char *sAvailMemAttribute = "__available_memory";
static constexpr const char *sVirtualGraphAttribute = "__ipu_number";
static constexpr const char *sPipelineStageAttribute = "__pipeline_stage";
static constexpr const char *sExecutionPhaseAttribute = "__execution_phase";
static constexpr const char *sExecutionContextAttribute = "__execution_context";
static constexpr const char *sRecomputeOutputAttribute = "__recompute_output_in_backward_pass";
static constexpr const char *sPartialsTypeAttribute = "__partials_type";
static constexpr const char *sOutputTypeAttribute = "__output_type";
static constexpr const char *sInplaceOpNames = "__inplace_op_names";
static constexpr const char *sInplaceOpPriorities = "__inplace_op_priorities";
static constexpr const char *sExcludePatternsAttribute = "__exclude_patterns";
static constexpr const char *sSchedulePriority = "__schedule_priority";
static constexpr const char *sTileSetAttribute = "__tile_set";
static constexpr const char *sOutlineAttribute = "__outline";
static constexpr const char *sDebugInfoId = "__debug_info_id";
static constexpr const char *sEnableConvDitheringAttribute = "__enable_conv_dithering";
static constexpr const char *sOutputTensorLocationAttribute = "__output_tensor_location";
static constexpr const char *sCollectiveOperator = "__collectiveOperator";
static constexpr const char *sCollectiveReplicaGrouping = "__collectiveReplicaGrouping";
static constexpr const char *sReplicationFactor = "__replicationFactor";
static constexpr const char *sSerializeMatMulModeAttribute = "__serialize_matmul_mode";
static constexpr const char *sSerializeMatMulFactorAttribute = "__serialize_matmul_factor";
static constexpr const char *sSerializeMatMulPrecisionAttribute = "__serialize_matmul_precision";
static constexpr const char *sSerializeMatMulMode_None = "none";
static constexpr const char *sSerializeMatMulMode_InputChannels = "input_channels";
static constexpr const char *sSerializeMatMulMode_ReducingDim = "reducing_dim";
static constexpr const char *sSerializeMatMulMode_OutputChannels = "output_channels";

}  // namespace popart

#endif  // popart_names_hpp
