"""Ops that cost nothing on the tiles."""

from __future__ import annotations

from tensorflow_ipu.costs.cost import FREE, Cost, OpSpec, Resources
from tensorflow_ipu.costs.rule import Rule, rules

# They name data or pass it on as it is, or describe it: the compiler knows static shapes.
_NAMES = """
    Const Identity IdentityN StopGradient PreventGradient Snapshot Placeholder NoOp ControlTrigger
    PlaceholderWithDefault Reshape Squeeze ExpandDims EnsureShape Bitcast Shape ShapeN Size Rank
    BroadcastArgs BroadcastGradientArgs VariableShape Empty EmptyTensorList TensorListReserve
    TensorListLength TensorListElementShape TensorListStack TensorListFromTensor
    TensorListPushBackBatch GuaranteeConst HostConst Arg _Arg _Retval XlaSharding
    """
# Variables are where they are.
_VARIABLES = """
    VarHandleOp ReadVariableOp VarIsInitializedOp IsVariableInitialized DestroyResourceOp VariableV2
    IpuProgramVariable
    """
# They run functions, whose ops count on their own.
_CONTROL = """
    While StatelessWhile If StatelessIf Case StatelessCase PartitionedCall StatefulPartitionedCall
    RemoteCall Switch RefSwitch Merge RefMerge Enter RefEnter Exit RefExit NextIteration
    RefNextIteration LoopCond IpuLaunch IpuLaunchCluster XlaCallModule
    """
# Checks and messages are for the host. The chip rounds and traps while it computes.
_CHECKS = """
    CheckNumerics CheckNumericsV2 Assert Print PrintV2 IpuPrintTensor IpuCheckNumerics
    IpuCheckCast IpuMaskLabels
    IpuRoundToHalf IpuRoundStochastically IpuHalfToFloat IpuFloatToHalf StringFormat
    """
# Transfers are timed as such: `costs.collectives` (with what is added on the way), `streams`.
_TRANSFERS = """
    IpuApplicationReceive IpuApplicationSend
    IpuInfeedDequeue IpuOutfeedEnqueue IpuInfeedInitialize IpuInfeedDelete IpuOutfeedDequeue
    IpuOutfeedDelete IpuHostEmbeddingLookup IpuHostEmbeddingUpdate IpuHostEmbeddingRegister
    IpuHostEmbeddingDeregister IpuCrossReplicaSum IpuReduceScatter IpuAllGather IpuAllToAll
    IpuReplicaBroadcast IpuAssumeEqualAcrossReplicas IpuReplicationFactor IpuReplicationIndex
    """
# They run on the host only.
_HOST = "IpuApplicationCall IpuApplicationStart IpuDatasetBenchmark IpuDatasetExtract IpuRaise"


def _free(_spec: OpSpec, _resources: Resources) -> Cost:
    """Nothing is computed or moved on the chip."""
    return FREE


RULES: dict[str, Rule] = rules(
    _free, " ".join((_NAMES, _VARIABLES, _CONTROL, _CHECKS, _TRANSFERS, _HOST))
)
