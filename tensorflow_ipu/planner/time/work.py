"""Ops and transfers of a launch with their runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.planner.memory.stash import CHEAP
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.planner.program.structure import BACKWARD, FORWARD
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import transfers
from tensorflow_ipu.planner.time.items import Item, in_order, op_items
from tensorflow_ipu.planner.time.pipeline_time import StageCosts, body, recomputing, stage_costs
from tensorflow_ipu.planner.time.transfers import Subject, Traffic
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.util import op_names

# --- Time of recomputing activations in a program without a pipeline ---


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


# --- Ops and transfers of a launch with their runs ---


def items(placed: PlacedWorkload, settings: Settings, costs: Sequence[Cost]) -> list[Item]:
    """Returns the ops and transfers of a launch, in the order of the program.

    Args:
        placed: the program.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.

    Returns:
        Ops and transfers with all their runs in a launch; in a pipeline without recomputation and
        counters of mini-batches. Transfers beside the computation have only the run that IPUs wait
        for.
    """
    _, found = collect(placed, settings, costs)
    if placed.pipeline is not None:
        workload, pipeline = placed.relocated, as_run(placed.pipeline, settings)
        inside = body(workload)
        found = in_body(found, inside[0])
        stages = stage_costs(workload, pipeline, between(found, inside), settings.chip)
        found = counted(found, stages, inside)
    return in_order(found)


def collect(
    placed: PlacedWorkload, settings: Settings, costs: Sequence[Cost]
) -> tuple[Traffic, list[Item]]:
    """Returns the transfers of a launch, and all items that take time in it.

    Args:
        placed: the program.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.
    """
    workload = placed.relocated
    subject, traffic = Subject(workload, settings), Traffic()
    for add in (
        transfers.add_host_transfers,
        transfers.add_collectives,
        transfers.add_copies,
        transfers.add_streaming_transfers,
    ):
        add(subject, traffic)
    found = op_items(workload, costs, op_names.TRANSFERS) + traffic.items
    found = _taken(workload, found)
    if placed.pipeline is None and settings.recompute:
        found = recomputed(placed, found)
    return traffic, found


def as_run(description: PipelineDescription, settings: Settings) -> PipelineDescription:
    """Returns a pipeline as it is run: settings may add recomputation.

    Args:
        description: the pipeline.
        settings: chip, replicas and options.
    """
    return recomputing(description) if settings.recompute else description


def in_body(items: Sequence[Item], begin: int) -> list[Item]:
    """Returns the items, with items of a stage that no op makes in the pipeline's loop.

    Copies of variables are such items.

    Args:
        items: of the whole program.
        begin: position of the loop's first op.
    """
    return [
        item._replace(position=begin) if item.stage is not None and item.position < 0 else item
        for item in items
    ]


def between(items: Sequence[Item], inside: tuple[int, int]) -> list[Item]:
    """Returns the items at some positions.

    Args:
        items: of the whole program.
        inside: first position, and one past the last.
    """
    return [item for item in items if inside[0] <= item.position < inside[1]]


def counted(items: Sequence[Item], stages: StageCosts, inside: tuple[int, int]) -> list[Item]:
    """Returns items with their runs in a launch of the present pipeline.

    Args:
        items: of the whole program.
        stages: costs of the pipeline's stages.
        inside: positions of the ops of its loop.
    """
    made = []
    for item in items:
        if not inside[0] <= item.position < inside[1]:
            made.append(item)
        elif not stages.is_counter(item):
            made.append(item._replace(runs=stages.runs(item)))
    return made


def _taken(workload: Workload, items: Sequence[Item]) -> list[Item]:
    """Returns the items without items of branches that are not counted."""
    if not any(op.branch for op in workload.ops):
        return list(items)
    cycles = np.zeros(len(workload.ops))
    for item in items:
        if 0 <= item.position < len(cycles):
            cycles[item.position] += item.cycles
    counted = structure.taken(workload, cycles)
    return [
        item for item in items if not 0 <= item.position < len(counted) or counted[item.position]
    ]
