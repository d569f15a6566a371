"""Activations that are computed again in a program without a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.planner.memory.recomputation import CHEAP
from tensorflow_ipu.planner.program.structure import BACKWARD, FORWARD, structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time.items import Item
from tensorflow_ipu.planner.workload import Workload


def recomputed(workload: Workload, settings: Settings, items: Sequence[Item]) -> list[Item]:
    """Returns items with cheap ops of the forward pass run twice, if activations are recomputed.

    Args:
        workload: the program, without a pipeline.
        settings: what it is planned for.
        items: what takes time.
    """
    if not settings.recompute:
        return list(items)
    sections = structure(workload).sections
    if BACKWARD not in sections:
        return list(items)
    return [
        item._replace(runs=2 * item.runs)
        if item.op is not None
        and sections[item.op] == FORWARD
        and workload.ops[item.op].type in CHEAP
        else item
        for item in items
    ]
