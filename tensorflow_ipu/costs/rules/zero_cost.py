"""Ops that cost nothing on the tiles."""

from __future__ import annotations

from tensorflow_ipu.costs.cost import FREE, Cost, OpSpec, Resources, Rule, rules
from tensorflow_ipu.util import op_names

# They name data or pass it on as it is, or describe it: the compiler knows static shapes.
_NAMES = """
    Const Identity IdentityN StopGradient PreventGradient Snapshot Placeholder NoOp ControlTrigger
    PlaceholderWithDefault Reshape Squeeze ExpandDims EnsureShape Bitcast Shape ShapeN Size Rank
    BroadcastArgs BroadcastGradientArgs VariableShape Empty EmptyTensorList TensorListReserve
    TensorListLength TensorListElementShape TensorListStack TensorListFromTensor
    TensorListPushBackBatch GuaranteeConst HostConst Arg _Arg _Retval XlaSharding
    """
# Variables are where they are.
_VARIABLES = f"""
    VarHandleOp VarIsInitializedOp IsVariableInitialized DestroyResourceOp VariableV2
    {op_names.READ} {op_names.PROGRAM_VARIABLE}
    """
# They run functions, whose ops count on their own, or steer the flow of data.
_CONTROL = " ".join(
    sorted(op_names.CONTROL_FLOW | op_names.FRAME_OPS)
    + ["RemoteCall", "IpuLaunch", "IpuLaunchCluster", "XlaCallModule"]
)
# Checks and messages are for the host. The chip rounds and traps while it computes.
_CHECKS = f"""
    {" ".join(sorted(op_names.DROPPED_CHECKS))} Print PrintV2 StringFormat IpuPrintTensor
    IpuCheckNumerics IpuCheckCast IpuMaskLabels
    IpuRoundToHalf IpuRoundStochastically IpuHalfToFloat IpuFloatToHalf
    """
# Transfers are timed as such: `chip.collectives` (with what is added on the way), `chip.streams`.
_TRANSFERS = " ".join(sorted(op_names.TRANSFERS))
# They say what the device is, or are for the host, before and after programs.
_AROUND = f"""
    {op_names.EQUALITY_PROMISE} {op_names.REPLICA_COUNT} {op_names.REPLICA_INDEX}
    IpuApplicationReceive IpuApplicationSend IpuInfeedInitialize IpuInfeedDelete IpuOutfeedDequeue
    IpuOutfeedDelete IpuHostEmbeddingRegister IpuHostEmbeddingDeregister
    """
# They run on the host only.
_HOST = """
    IpuApplicationCall IpuApplicationStart IpuDatasetBenchmark IpuDatasetExtract IpuRaise
    IpuJoinInstances IpuInstanceSum IpuInstanceBroadcast IpuInstanceGather
    IpuMakeRemoteMemory IpuRemoteLoad IpuRemoteStore
    IpuPublish IpuFollow IpuAwaitFollowers IpuHollow
    IpuAllGatherStart IpuCrossReplicaSumStart IpuReduceScatterStart IpuReplicaBroadcastStart
    IpuCrossReplicaSumOfProductStart IpuCollectiveFinish
    """


def _free(_spec: OpSpec, _resources: Resources) -> Cost:
    """Prices an op that computes and moves nothing on the chip."""
    return FREE


RULES: dict[str, Rule] = rules(
    _free, " ".join((_NAMES, _VARIABLES, _CONTROL, _CHECKS, _TRANSFERS, _AROUND, _HOST))
)
