"""`View`: the tables and trees of a report, each made when it is first asked for."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.planner import details
from tensorflow_ipu.planner.details import Details
from tensorflow_ipu.planner.memory.details import TEMPORARIES, MemoryDetails
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler.views import operations, spans, trees
from tensorflow_ipu.profiler.views.operations import Operation
from tensorflow_ipu.profiler.views.spans import IpuSpans
from tensorflow_ipu.profiler.views.trees import LayerNode, ProgramNode
from tensorflow_ipu.util.short_repr import short_repr


class LiveTensor(NamedTuple):
    """A tensor that is live on an IPU at a step.

    Args:
        name: of the tensor; of an op's temporaries the name of the op.
        category: of its memory, such as `variables`, `activations`, `temporaries`.
        num_bytes: on all tiles.
        worst_bytes: on the tile that has most of everything that comes and goes, which is tile 0.
        born: first step at which it takes memory; None for a resident.
        dies: last such step; None for a resident.
    """

    name: str
    category: str
    num_bytes: int
    worst_bytes: int
    born: int | None
    dies: int | None


def live_at_step(plan: Plan, details: Details, step: int, ipu: int = 0) -> tuple[LiveTensor, ...]:
    """Returns the tensors that are live on an IPU at a step, the largest first, without code.

    Args:
        plan: memory and time of a program.
        details: summands of the plan.
        step: number of the step.
        ipu: IPU within the replica.

    Raises:
        IndexError: there is no such step or IPU.
    """
    memory, buffers = _of_ipu(details, ipu), plan.workload.buffers
    live = memory.live(step)
    worst = memory.worst(live)
    found = [
        LiveTensor(buffers[s.buffer].name, s.category, s.num_bytes, bytes_, s.birth, s.death)
        for s, bytes_ in zip(live, worst)
    ]
    for placed in memory.residents:
        if not placed.is_code:
            name, category, size = placed.resident[:3]
            found.append(LiveTensor(name, category, size, int(placed.tiles[0]), None, None))
    temporary = int(memory.temporaries[step])
    if temporary:
        name = plan.workload.ops[memory.steps[step]].name
        whole = temporary * int(memory.temporary_tiles[step])
        found.append(LiveTensor(name, TEMPORARIES, whole, temporary, step, step))
    return tuple(sorted(found, key=lambda tensor: -tensor.num_bytes))


def live_on_tile(
    plan: Plan, details: Details, tile: int, step: int | None = None, ipu: int = 0
) -> dict[str, int]:
    """Returns the bytes of each tensor on a tile at a step, the largest first.

    Args:
        plan: memory and time of a program.
        details: summands of the plan.
        tile: number of the tile.
        step: number of the step; by default the step of the fullest tile's peak.
        ipu: IPU within the replica.

    Returns:
        Bytes by name. They add up to the bytes of the tile, with code by its kind, and the
        temporaries of the op under `temporaries`.

    Raises:
        IndexError: there is no such tile, step or IPU.
    """
    memory = _of_ipu(details, ipu)
    if step is None:
        step = _fullest_step(memory)
    found: dict[str, int] = {}
    buffers = plan.workload.buffers
    for name, size in memory.on_tile(tile, step, [buffer.name for buffer in buffers]):
        found[name] = found.get(name, 0) + size
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _of_ipu(details: Details, ipu: int) -> MemoryDetails:
    """Returns the memory of an IPU."""
    if not 0 <= ipu < len(details.memory):
        raise IndexError(
            f"A replica of the program has the IPUs 0 to {len(details.memory) - 1}; received {ipu}."
        )
    return details.memory[ipu]


def _fullest_step(memory: MemoryDetails) -> int | None:
    """Returns the step of tile 0's peak; None for an IPU without ops."""
    if not len(memory.steps):
        return None
    change = np.zeros(len(memory.steps) + 1, np.int64)
    for stretch, worst in zip(memory.stretches, memory.worst(memory.stretches)):
        change[stretch.birth] += worst
        change[stretch.death + 1] -= worst
    return int((np.cumsum(change[:-1]) + memory.temporaries).argmax())


# --- All views of a report ---


class View:
    """The tables and trees of a plan.

    Args:
        plan: memory and time of a program.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __repr__(self) -> str:
        """Shows the program."""
        return short_repr(type(self).__name__, {"": self.plan.workload.name})

    @functools.cached_property
    def details(self) -> Details:
        """The summands of the plan: ops in order, tensors of each step and tile."""
        return details.details(self.plan)

    @functools.cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The ops and transfers of a launch, the most expensive first."""
        return operations.operations(self.plan, self.details)

    @functools.cached_property
    def layers(self) -> tuple[LayerNode, ...]:
        """The layers as a tree; the first is the whole program."""
        return trees.layer_tree(self.plan, self.operations)

    @functools.cached_property
    def program(self) -> tuple[ProgramNode, ...]:
        """The tree of a launch in order of execution; the first is the whole program."""
        return trees.program_tree(self.plan, self.details.order, self.operations)

    def spans(self, most: int = spans.MOST_SPANS) -> tuple[IpuSpans, ...]:
        """Returns the spans of each IPU in a launch.

        Args:
            most: limit of spans; beyond it, neighbors too short to be visible are merged.
        """
        return spans.spans(self.plan, self.operations, self.layers, most)
