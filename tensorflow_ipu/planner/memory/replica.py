"""Memory plan of all IPUs of a replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.planner.memory.details import MemoryDetails
from tensorflow_ipu.planner.memory.ipu import MemoryInputs, planned
from tensorflow_ipu.planner.memory.ipu import details as details_of_ipu
from tensorflow_ipu.planner.memory.lifetimes import Lifetimes, recomputes
from tensorflow_ipu.planner.memory.tile_mapping import BLOCK, Interval
from tensorflow_ipu.planner.plan import IpuMemory
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload


def plan(lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]) -> tuple[IpuMemory, ...]:
    """Plans the memory of each IPU of a replica.

    The order of the ops does not depend on the number of tiles, nor on offloading, splitting or
    recomputation. So each of these lowers the fullest tile or leaves it.

    Args:
        lifetimes: the program with its live ranges.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.

    Returns:
        The memory of each IPU, also of those without ops.
    """
    program = _program(lifetimes, settings, costs)
    return tuple(planned(program, ipu) for ipu in range(program.placement.ipus))


def details(
    lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]
) -> tuple[MemoryDetails, ...]:
    """Returns the memory of each IPU of a replica tensor by tensor.

    Args:
        lifetimes: the program with its live ranges.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.
    """
    program = _program(lifetimes, settings, costs)
    return tuple(details_of_ipu(program, ipu) for ipu in range(program.placement.ipus))


def mappings(
    lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]
) -> tuple[Mapping[int, tuple[Interval, ...]], ...]:
    """Returns the tile mapping of each buffer.

    Args:
        lifetimes: the program with its live ranges.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.

    Returns:
        For each IPU of a replica, by index of the buffer, its tiles with their number of elements.
        For a stash of several mini-batches, the mapping of one.
    """
    buffers = lifetimes.placed.workload.buffers
    return tuple(each.mapping(buffers) for each in details(lifetimes, settings, costs))


def _program(lifetimes: Lifetimes, settings: Settings, costs: Sequence[Cost]) -> MemoryInputs:
    """Returns the inputs of the memory plan."""
    placed = lifetimes.placed
    return MemoryInputs(
        placed.workload,
        settings,
        placed.placement,
        lifetimes.order,
        costs,
        np.fromiter((cost.temporary for cost in costs), np.int64, len(costs)),
        _temporary_tiles(placed.workload, settings, costs),
        lifetimes.choices(recomputes(placed.workload, settings)),
    )


def _temporary_tiles(workload: Workload, settings: Settings, costs: Sequence[Cost]) -> np.ndarray:
    """Returns the number of tiles with each op's temporary memory, int64.

    Those among which it is divided, where that was chosen; else those that have a block of the
    largest tensor that it takes or makes.
    """
    found = np.zeros(len(costs), np.int64)
    for index, (op, cost) in enumerate(zip(workload.ops, costs)):
        if not cost.temporary:
            continue
        if cost.partition is not None:
            number = cost.partition.tiles
        else:
            largest = max((o.type.num_bytes for o in (*op.inputs, *op.outputs)), default=0)
            number = -(-largest // BLOCK)
        found[index] = min(max(number, 1), settings.compute_tiles)
    return found
