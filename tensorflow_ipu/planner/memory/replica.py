"""The memory of each IPU: what is on which tile, and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tensorflow_ipu.costs.cost import FREE
from tensorflow_ipu.planner.memory import liveness, op_order, recomputation, stash
from tensorflow_ipu.planner.memory.ipu import Program, mapping, planned
from tensorflow_ipu.planner.memory.liveness import Intervals, Order
from tensorflow_ipu.planner.memory.stash import StageStash
from tensorflow_ipu.planner.memory.tile_mapping import Interval
from tensorflow_ipu.planner.plan import IpuMemory
from tensorflow_ipu.planner.program import accesses as access
from tensorflow_ipu.planner.program import placement
from tensorflow_ipu.planner.program.resources import ResourceTable
from tensorflow_ipu.planner.program.structure import structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.schedule import PipelineDescription, RecomputationMode


def plan(workload: Workload, settings: Settings) -> tuple[IpuMemory, ...]:
    """Plans the memory of each IPU of a replica.

    The order of the ops does not depend on the number of tiles, nor on what is offloaded, split or
    computed again, so each of these lowers the fullest tile or leaves it.

    Args:
        workload: the program.
        settings: what it is planned for.

    Returns:
        The memory of each IPU, also of those without ops.

    Raises:
        ValueError: the settings do not suit the program.
    """
    program = _program(workload, settings)
    return tuple(planned(program, ipu) for ipu in range(program.placed.ipus))


def mappings(
    workload: Workload, settings: Settings
) -> tuple[Mapping[int, tuple[Interval, ...]], ...]:
    """Returns on which tiles each buffer is.

    Args:
        workload: the program.
        settings: what it is planned for.

    Returns:
        For each IPU of a replica, by index of the buffer, the tiles that have something of it with
        the number of elements. Of what is put aside for several mini-batches, the mapping of one.

    Raises:
        ValueError: the settings do not suit the program.
    """
    program = _program(workload, settings)
    return tuple(mapping(program, ipu) for ipu in range(program.placed.ipus))


def _program(workload: Workload, settings: Settings) -> Program:
    """What memory is planned from."""
    if settings.compute_tiles < 1:
        raise ValueError(
            f"At least one tile of an IPU must compute, but of its {settings.chip.tiles} tiles "
            f"{settings.io_tiles} are I/O tiles: have fewer of these."
        )
    placed = placement.place(workload, settings)
    accesses = access.find(workload, placed)
    pairs = liveness.in_place_pairs(workload, accesses)
    ordered = op_order.order(workload, accesses, pairs, placed, settings.ordering)
    stashes, intervals = _live(workload, settings, accesses, pairs, ordered)
    table = ResourceTable(settings)
    costs = [FREE if op.ipu is None else table.cost(op) for op in workload.ops]
    temporary = np.fromiter((cost.temporary for cost in costs), np.int64, len(costs))
    return Program(
        *(workload, settings, placed, accesses, ordered, costs, temporary, stashes, intervals)
    )


def recomputes(workload: Workload, settings: Settings) -> bool:
    """Whether a program may compute activations again: the settings or its pipeline say so.

    Args:
        workload: the program.
        settings: what it is planned for.
    """
    described = workload.pipeline is not None and workload.pipeline.recomputation is not None
    return settings.recompute or described


def _live(
    workload: Workload,
    settings: Settings,
    accesses: access.Accesses,
    pairs: np.ndarray,
    ordered: Order,
) -> tuple[Sequence[StageStash], list[Intervals]]:
    """Stashes, and when each instance is live without and, if it may be, with recomputation."""
    base = liveness.intervals(accesses, ordered, pairs)
    again = recomputes(workload, settings)
    description = placement.description_of(workload, settings)
    if not len(accesses.first):
        return (), [base]
    if description is None:
        if not again:
            return (), [base]
        sections = structure(workload).sections
        return (), [
            base,
            recomputation.local(workload, accesses, ordered, base, pairs, sections),
        ]
    phases = stash.phases_of(workload)
    stashes = stash.find(workload, accesses, phases, description)
    found = [
        recomputation.pipelined(
            accesses, ordered, base, phases, stashes, recompute, _at_once(description)
        )
        for recompute in ((False, True) if again else (False,))
    ]
    return stashes, found


def _at_once(description: PipelineDescription) -> bool:
    """Whether all of a stage is computed again before its backward pass."""
    mode = description.recomputation or RecomputationMode.Auto
    resolved = dataclasses.replace(description, recomputation=mode).resolved_recomputation
    return resolved is RecomputationMode.RecomputeThenBackpropagate
