"""Live ranges of a program's memory, independent of chip and options.

Settings only choose the algorithm that orders the ops, and whether activations may be computed
again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from tensorflow_ipu.planner.memory import liveness, op_order, stash
from tensorflow_ipu.planner.memory.liveness import Intervals, Order
from tensorflow_ipu.planner.memory.stash import StageStash
from tensorflow_ipu.planner.program.accesses import Accesses
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.planner.schedule import PipelineDescription, RecomputationMode
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload


@dataclasses.dataclass(frozen=True)
class Liveness:
    """Live ranges of all memory instances under one choice of recomputation.

    Attributes:
        accesses: Accesses of ops to buffers.
        stashes: Stashes of a pipeline's stages.
        intervals: Live ranges of instances outside of stashes.
        recompute: Whether activations are recomputed.
    """

    accesses: Accesses
    stashes: Sequence[StageStash]
    intervals: Intervals
    recompute: bool

    def peak(self, ipu: int) -> int:
        """Returns the peak bytes of tensors on an IPU, without variables.

        Args:
            ipu: the IPU.
        """
        accesses, found = self.accesses, self.intervals
        stretches = found.where(accesses.instance_ipu[found.instance] == ipu)
        sizes = accesses.num_bytes[stretches.instance]
        curve = liveness.curve(len(accesses.end), stretches, sizes)
        stashed = (
            stash.num_bytes(each, accesses, self.recompute)
            for each in self.stashes
            if each.ipu == ipu
        )
        return int(curve.max(initial=0)) + sum(stashed)


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """The order of a program's ops, and the live ranges of its memory in that order.

    Attributes:
        placed: The program.
        order: Order of its ops.
    """

    placed: PlacedWorkload
    order: Order

    @functools.cached_property
    def kept(self) -> Liveness:
        """Live ranges with activations that are kept for the backward pass."""
        return self._found(self.placed.accesses, recompute=False)

    @functools.cached_property
    def recomputed(self) -> Liveness:
        """Live ranges with recomputed activations."""
        return self._found(self.placed.accesses, recompute=True)

    @functools.cached_property
    def remade(self) -> Liveness:
        """Live ranges with each elementwise result recomputed by the ops that read it."""
        return self._found(self.placed.remade_accesses, recompute=True)

    def choices(self, recompute: bool) -> tuple[Liveness, ...]:
        """Returns the live ranges of each choice: activations kept, or recomputed.

        Args:
            recompute: whether the program may recompute them.
        """
        if not recompute or not len(self.placed.accesses.first):
            return (self.kept,)
        if self.placed.remade_accesses is self.placed.accesses:
            return self.kept, self.recomputed
        return self.kept, self.recomputed, self.remade

    def peak(self, recompute: bool) -> int:
        """Returns the peak bytes of tensors over all IPUs, without variables.

        Args:
            recompute: whether activations are recomputed.
        """
        way = self.remade if recompute else self.kept
        return max((way.peak(ipu) for ipu in range(self.placed.placement.ipus)), default=0)

    def _found(self, accesses: Accesses, recompute: bool) -> Liveness:
        """Returns the live ranges for some accesses."""
        workload = self.placed.workload
        pairs = liveness.in_place_pairs(workload, accesses)
        base = liveness.intervals(accesses, self.order, pairs)
        pipeline = self.placed.pipeline if len(accesses.first) else None
        if pipeline is not None:
            phases = stash.phases_of(workload)
            stashes = stash.find(workload, accesses, phases, pipeline)
            found = stash.pipelined(
                workload,
                accesses,
                self.order,
                base,
                phases,
                stashes,
                recompute,
                _at_once(pipeline),
            )
            return Liveness(accesses, stashes, found, recompute)
        if recompute:
            base = stash.local(workload, accesses, self.order, base, pairs, self.placed.sections)
        return Liveness(accesses, (), base, recompute)


def find(placed: PlacedWorkload, algorithm: str) -> list[Lifetimes]:
    """Orders the ops of a program in all ways that an algorithm has.

    Args:
        placed: the program.
        algorithm: name of a `SchedulingAlgorithm`.

    Raises:
        ValueError: there is no such algorithm.
    """
    orders = op_order.orders(placed.workload, placed.all_accesses, algorithm)
    return [Lifetimes(placed, order) for order in orders]


def best(found: Sequence[Lifetimes], recompute: bool) -> Lifetimes:
    """Returns the order with the lowest peak of tensors on any IPU; of equal ones the first.

    Args:
        found: a program in different orders.
        recompute: whether it may recompute activations.
    """
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda each: each.peak(recompute))


def recomputes(workload: Workload, settings: Settings) -> bool:
    """Returns whether settings or the pipeline allow activations to be recomputed.

    Args:
        workload: the program.
        settings: chip, replicas and options.
    """
    described = workload.pipeline is not None and workload.pipeline.recomputation is not None
    return settings.recompute or described


def _at_once(pipeline: PipelineDescription) -> bool:
    """Returns whether a whole stage is recomputed before its backward pass."""
    mode = pipeline.recomputation or RecomputationMode.Auto
    resolved = dataclasses.replace(pipeline, recomputation=mode).resolved_recomputation
    return resolved is RecomputationMode.RecomputeThenBackpropagate
