"""Finds when each piece of memory of a program is needed, independent of chip and options.

Settings only choose the algorithm that orders the ops, and whether activations are kept or computed
again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.planner.memory import liveness, op_order, recomputation, stash
from tensorflow_ipu.planner.memory.liveness import Intervals, Order
from tensorflow_ipu.planner.memory.stash import Phases, StageStash
from tensorflow_ipu.planner.program.accesses import Accesses
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.schedule import PipelineDescription, RecomputationMode


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """The order of a program's ops, and when its memory is needed in that order.

    Attributes:
        placed: The program.
        pairs: Which results may take the place of which operands.
        order: Order of its ops.
    """

    placed: PlacedWorkload
    pairs: np.ndarray
    order: Order

    @functools.cached_property
    def kept(self) -> Intervals:
        """When each instance is live, with activations that are kept for the backward pass."""
        pipeline = self._pipeline
        return self._base if pipeline is None else self._pipelined(pipeline, recompute=False)

    @functools.cached_property
    def recomputed(self) -> Intervals:
        """When each instance is live, with activations that are computed again."""
        if self._pipeline is not None:
            return self._pipelined(self._pipeline, recompute=True)
        if not len(self._accesses.first):
            return self._base
        return recomputation.local(
            self.placed.workload,
            self._accesses,
            self.order,
            self._base,
            self.pairs,
            self.placed.sections,
        )

    @functools.cached_property
    def stashes(self) -> Sequence[StageStash]:
        """What the stages of a pipeline put aside."""
        if self._pipeline is None:
            return ()
        return stash.find(self.placed.workload, self._accesses, self._phases, self._pipeline)

    @property
    def _accesses(self) -> Accesses:
        return self.placed.accesses

    @property
    def _pipeline(self) -> PipelineDescription | None:
        """The pipeline; None also for a program without memory."""
        return self.placed.pipeline if len(self._accesses.first) else None

    @functools.cached_property
    def _base(self) -> Intervals:
        """When each instance is live in a program without stages."""
        return liveness.intervals(self._accesses, self.order, self.pairs)

    @functools.cached_property
    def _phases(self) -> Phases:
        return stash.phases_of(self.placed.workload)

    def _pipelined(self, pipeline: PipelineDescription, recompute: bool) -> Intervals:
        """When each instance is live in a pipeline."""
        return recomputation.pipelined(
            self.placed.workload,
            self._accesses,
            self.order,
            self._base,
            self._phases,
            self.stashes,
            recompute,
            _at_once(pipeline),
        )


def find(placed: PlacedWorkload, algorithm: str) -> Lifetimes:
    """Orders the ops of a program.

    Args:
        placed: the program.
        algorithm: name of a `SchedulingAlgorithm`.

    Raises:
        ValueError: there is no such algorithm.
    """
    workload, accesses = placed.workload, placed.all_accesses
    pairs = liveness.in_place_pairs(workload, accesses)
    order = op_order.order(workload, accesses, pairs, placed.placement, algorithm)
    if placed.accesses is not accesses:
        pairs = liveness.in_place_pairs(workload, placed.accesses)
    return Lifetimes(placed, pairs, order)


def _at_once(pipeline: PipelineDescription) -> bool:
    """Whether all of a stage is computed again before its backward pass."""
    mode = pipeline.recomputation or RecomputationMode.Auto
    resolved = dataclasses.replace(pipeline, recomputation=mode).resolved_recomputation
    return resolved is RecomputationMode.RecomputeThenBackpropagate
