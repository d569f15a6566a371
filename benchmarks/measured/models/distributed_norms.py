"""Batch normalization over the replicas of a group, in the plan of a program without it.

Each norm of the forward pass gathers the mean and variance of each channel from its group, and each
norm of the backward pass the two sums of its gradient, float32.
"""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.planner.plan import Transfer
from tensorflow_ipu.planner.workload import Op, Operand, Workload
from tensorflow_ipu.util import op_names

# End of the name of what gathers statistics.
_NAME = "statistics_of_group"
_NORMS = ("FusedBatchNorm", "FusedBatchNormGrad")
_VALUES = 2  # of each channel, in both passes


def distributed(workload: Workload, group: int) -> Workload:
    """Returns a program whose batch norms have the statistics of several replicas.

    Args:
        workload: the program.
        group: replicas of a group.
    """
    start, ops = [], []
    for op in workload.ops:
        start.append(len(ops))
        ops.append(op)
        if op.type.rstrip("V23") in _NORMS:
            ops.append(_gather(op, group))
    start.append(len(ops))
    ends = {start[i]: start[op.end] for i, op in enumerate(workload.ops) if op.end > i + 1}
    moved = (dataclasses.replace(op, end=ends.get(i, i + 1)) for i, op in enumerate(ops))
    return dataclasses.replace(workload, ops=tuple(moved))


def is_of_norm(transfer: Transfer) -> bool:
    """Returns whether a transfer gathers statistics.

    Args:
        transfer: of a plan.
    """
    return transfer.name.endswith(_NAME)


def _gather(norm: Op, group: int) -> Op:
    """Returns the all-gather of a norm's statistics; its memory is negligible."""
    channels = norm.inputs[0].shape[-1]
    taken = Operand("float32", (_VALUES * channels,), None)
    return dataclasses.replace(
        norm,
        name=f"{norm.name}/{_NAME}",
        type=op_names.ALL_GATHER,
        inputs=(taken,),
        outputs=(taken._replace(shape=(group, _VALUES * channels)),),
        attributes={op_names.COLLECTIVES[op_names.ALL_GATHER].group: group},
        flops=None,
    )
