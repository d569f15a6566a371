"""Groups of ops for reports: by layer, else by function of the user's program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorflow_ipu.planner.memory.details import TEMPORARIES
from tensorflow_ipu.planner.workload import Op, Workload
from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    from tensorflow_ipu.planner.plan import IpuMemory, LiveBuffer

_FEEDS = {op_names.INFEED: "infeed", op_names.OUTFEED: "outfeed"}
_SOURCE = re.compile(r"(?P<file>.*):\d+ \((?P<function>.*)\)")


def group(op: Op) -> str:
    """Returns the name of the group that an op is in.

    Args:
        op: the op.

    Returns:
        Its layer; for an op in no layer `infeed`, `outfeed` or the function it was made in, as in
        `step (train.py)`; empty if nothing is known of it.
    """
    if op.layer:
        return op.layer
    found = _SOURCE.fullmatch(op.source)
    function = f"{found['function']} ({found['file']})" if found else ""
    return _FEEDS.get(op.type, function)


def groups_of_buffers(workload: Workload) -> dict[int, str]:
    """Returns the group of each buffer: its producer's, else its first user's.

    Args:
        workload: a program.

    Returns:
        Names by index of the buffer, without buffers that are in no group.
    """
    made: dict[int, str] = {}
    used: dict[int, str] = {}
    for index, op in enumerate(workload.ops):
        if op.end > index + 1:
            continue  # the ops inside say more
        name = group(op)
        for operands, found in ((op.outputs, made), (op.inputs, used)):
            for operand in operands:
                if operand.buffer is not None and name:
                    found.setdefault(operand.buffer, name)
    return {**used, **made}


def groups_at_peak(
    workload: Workload, memory: IpuMemory, live: Sequence[LiveBuffer]
) -> tuple[str, ...]:
    """Returns the group of each of some buffers that are live at the peak of an IPU.

    Args:
        workload: the program.
        memory: of the IPU.
        live: the buffers.

    Returns:
        Names, in the same order; empty for buffers of no op.
    """
    of_buffers = groups_of_buffers(workload)
    of_peak = "" if memory.peak_op is None else group(workload.ops[memory.peak_op])
    return tuple(
        (of_peak if item.category == TEMPORARIES else "")
        if item.buffer is None
        else of_buffers.get(item.buffer, "")
        for item in live
    )
