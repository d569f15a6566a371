"""Sections of ops: forward pass, backward pass and weight update."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu import op_names
from tensorflow_ipu.planner.workload import VARIABLE, Op, Workload

FORWARD = "forward"
BACKWARD = "backward"
UPDATE = "update"


def mini_batches(workload: Workload) -> int:
    """Returns the number of mini-batches of one replica in one launch.

    Args:
        workload: the program. Without feeds and pipelines a launch is one mini-batch.
    """
    if workload.pipeline is not None:
        return max(1, workload.pipeline.mini_batches * workload.pipeline.repeat_count)
    return max((op.runs for op in workload.ops if op.type == op_names.INFEED), default=1) or 1


def variables_of(workload: Workload, op: Op) -> set[int]:
    """Returns the indices of the variables that an op reads or writes."""
    found = set()
    for operand in (*op.inputs, *op.outputs):
        if operand.buffer is not None:
            buffer = workload.buffers[operand.buffer]
            if buffer.kind == VARIABLE and buffer.variable is not None:
                found.add(buffer.variable)
    return found


def sections_of(workload: Workload) -> tuple[str, ...]:
    """Returns the section of each op: `forward`, `backward`, `update` or empty.

    Args:
        workload: the program, whose ops have phases by the dataflow.
    """
    begin, end = _loop(workload.ops)
    return tuple(
        (op.phase or FORWARD) if begin <= index < end else ""
        for index, op in enumerate(workload.ops)
    )


def _loop(ops: Sequence[Op]) -> tuple[int, int]:
    """Returns the range of ops of the innermost loop with all gradients, else with the feeds."""
    gradients = [index for index, op in enumerate(ops) if op.phase == BACKWARD]
    wanted = gradients or [i for i, op in enumerate(ops) if op.type == op_names.INFEED]
    begin, end = 0, len(ops)
    if not wanted:
        return begin, end
    for index, op in enumerate(ops):
        if op.end > index + 1 and index < wanted[0] and wanted[-1] < op.end:
            begin, end = index + 1, op.end
    return begin, end
