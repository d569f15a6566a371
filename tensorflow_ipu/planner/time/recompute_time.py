"""Time of recomputing activations in a program without a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.planner.memory.recomputation import CHEAP
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.planner.program.sections import BACKWARD, FORWARD
from tensorflow_ipu.planner.time.items import Item


def recomputed(placed: PlacedWorkload, items: Sequence[Item]) -> list[Item]:
    """Returns items with cheap forward ops run twice, if there is a backward pass.

    Args:
        placed: the program, without a pipeline.
        items: ops and transfers with their cycles.
    """
    sections, ops = placed.sections, placed.workload.ops
    if BACKWARD not in sections:
        return list(items)
    return [
        item._replace(runs=2 * item.runs)
        if item.op is not None and sections[item.op] == FORWARD and ops[item.op].type in CHEAP
        else item
        for item in items
    ]
