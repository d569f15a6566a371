"""The enumerations of PopART and PopXL, with the numbers that programs and models hold."""

from __future__ import annotations

import enum


class Enumeration(enum.Enum):
    """An enumeration whose members have numbers: `int(member)`."""

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)


class AccumulateOuterFragmentSchedule(Enumeration):
    """How the part of the program outside the accumulation loop is ordered."""

    Scheduler = 0
    Serial = 1
    OverlapCycleOptimized = 2
    OverlapMemoryOptimized = 3


class AdamMode(Enumeration):
    """A variant of Adam."""

    Adam = 0
    AdamNoBias = 1
    AdaMax = 2
    Lamb = 3
    LambNoBias = 4


class AdaptiveMode(Enumeration):
    """A variant of the adaptive optimizers."""

    AdaGrad = 0
    RMSProp = 1
    CenteredRMSProp = 2
    AdaDelta = 3


class AnchorReturnTypeId(Enumeration):
    """Which values of an anchor come to the host."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3


class AutodiffStitchStrategy(Enumeration):
    """How values of a forward graph get to its backward graph."""

    RecomputeMinimal = 0
    RecomputeAllNonInputs = 1
    AddFwdOutputs = 2
    SafeAddFwdOutputs = 3


class BatchSerializationBatchSchedule(Enumeration):
    """How the parts of a serialized batch are ordered."""

    Scheduler = 0
    Isomorphic = 1
    OverlapOnIo = 2
    OverlapOnCompute = 3


class BatchSerializationMethod(Enumeration):
    """How a batch is serialized."""

    UnrollDynamic = 0
    UnrollStatic = 1
    Loop = 2


class BatchSerializationTransformContext(Enumeration):
    """Which pass a batch is serialized in."""

    Fwd = 0
    Bwd = 1
    Forward = 0
    Backward = 1


class CollectiveOperator(Enumeration):
    """How a collective combines the values of replicas."""

    Add = 0
    Mean = 1
    Mul = 2
    Min = 3
    Max = 4
    LogicalAnd = 5
    LogicalOr = 6
    SquareAdd = 7
    Local = 8


class CommGroupType(Enumeration):
    """Which replicas make a group."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class DataType(Enumeration):
    """Element type of a tensor; its numbers differ from ONNX's."""

    UINT8 = 0
    INT8 = 1
    FLOAT8_143 = 2
    FLOAT8_152 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT32 = 8
    UINT64 = 9
    BOOL = 10
    FLOAT = 11
    FLOAT16 = 12
    BFLOAT16 = 13
    DOUBLE = 14
    COMPLEX64 = 15
    COMPLEX128 = 16
    STRING = 17
    UNDEFINED = 18


class DeviceConnectionType(Enumeration):
    """When a device is attached."""

    Always = 0
    OnDemand = 1
    Never = 2


class DeviceSelectionCriterion(Enumeration):
    """Which of the free devices is taken."""

    First = 0
    Random = 1


class DeviceType(Enumeration):
    """A kind of device."""

    IpuModel = 0
    Cpu = 1
    Ipu = 2
    OfflineIpu = 3
    Sim = 4

    def __str__(self) -> str:
        return ("ipu-model", "cpu", "ipu", "offline-ipu", "sim")[self.value]


class ExchangeStrategy(Enumeration):
    """When data of the host is exchanged."""

    JustInTime = 0
    OverlapInnerLoop = 1
    OverlapLoops = 2
    OverlapStep = 3


class ExecutionPhaseIOSchedule(Enumeration):
    """When tensors of an execution phase are loaded."""

    Preload = 0
    OnDemand = 1


class ExecutionPhaseSchedule(Enumeration):
    """How execution phases are ordered."""

    Interleaving = 0
    Batch = 1
    BatchClusteredIO = 2


class GradientTensorTrackingMethod(Enumeration):
    """Which gradients automatic loss scaling looks at."""

    AllNonViewChangingGradientTensors = 0
    ConvAndMatmulGradients = 1
    GradientsOfUserSpecifiedTensors = 2


class InitType(Enumeration):
    """Initial contents of a new tensor."""

    NoInit = 0
    Zero = 1


class Instrumentation(Enumeration):
    """Which cycles are counted."""

    Outer = 0
    Inner = 1


class IrSerializationFormat(Enumeration):
    """How an IR is written."""

    JSON = 0


class MeanReductionStrategy(Enumeration):
    """When a mean of gradients is divided."""

    Running = 0
    Post = 1


class MergeVarUpdateType(Enumeration):
    """Which updates of weights are merged."""

    Off = 0
    All = 1
    AutoLoose = 2
    AutoTight = 3


class PatternsLevel(Enumeration):
    """A set of patterns."""

    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3


class RecomputationType(Enumeration):
    """Which activations are computed again in the backward pass."""

    NoRecompute = 0
    Standard = 1
    NormOnly = 2
    Pipeline = 3
    RecomputeAll = 4


class RecomputeType(Enumeration):
    """Whether the outputs of an op are computed again in the backward pass."""

    Undefined = 0
    Checkpoint = 1
    Recompute = 2
    Recomputed = 3


class ReductionType(Enumeration):
    """How several values become one."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class ReplicatedStreamMode(Enumeration):
    """Whether replicas get data of their own."""

    Replicate = 0
    Broadcast = 1


class ReplicatedTensorSharding(Enumeration):
    """Whether replicas share the storage of a tensor."""

    Off = 0
    On = 1


class ScatterReduction(Enumeration):
    """How values that are scattered to one place are combined."""

    Sum = 0
    Max = 1
    Min = 2
    Mul = 3
    NoReduction = 4


class SGDAccumulatorAndMomentum(Enumeration):
    """Whether accumulated gradients and momentum are one tensor."""

    Combined = 0
    Separate = 1


class SubgraphCopyingStrategy(Enumeration):
    """When inputs of subgraphs are copied."""

    OnEnterAndExit = 0
    JustInTime = 1


class SyncPattern(Enumeration):
    """Which IPUs synchronize with each other."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2

    def __str__(self) -> str:
        return ("full", "singlePipeline", "replicaAndLadder")[self.value]


class SyntheticDataMode(Enumeration):
    """Kind of data that replaces the host's."""

    Off = 0
    Zeros = 1
    RandomNormal = 2
    RandomUniform = 3


class TensorRemapType(Enumeration):
    """In which passes the layout of a tensor is chosen anew."""

    FwdBwdReverse = 0
    FwdBwd = 1
    Fwd = 2


class TensorStorage(Enumeration):
    """Where a tensor is kept."""

    OnChip = 0
    OffChip = 1


class TileSet(Enumeration):
    """A part of the tiles."""

    Compute = 0
    IO = 1


class VariableRetrievalMode(Enumeration):
    """Which replicas' values of a variable come to the host."""

    OnePerGroup = 0
    AllReduceReplicas = 1
    AllReplicas = 2


class VirtualGraphMode(Enumeration):
    """How ops are placed on IPUs."""

    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3


class WeightDecayMode(Enumeration):
    """Where weight decay enters an optimizer."""

    Decay = 0
    L2Regularization = 1


class RecoveryAction(Enumeration):
    """The action that recovers a system."""

    IPU_RESET = 0
    LINK_RESET = 1
    PARTITION_RESET = 2
    FULL_RESET = 3
