"""Sizes of the stashes of pipeline stages between forward and backward pass.

A stash holds the mini-batches that have passed a stage forward and not yet backward: `depth` of
them, by the schedule. Of each it has the activations that the stage's backward pass uses. With
recomputation it has only the values that the stage cannot recompute: inputs from other stages and
feeds, and the results of checkpoints. Random ops are recomputed from their seed, a few bytes. The
last stage goes backward at once, so it recomputes nothing. A stash is resident. In a pipeline that
does not train, ops request stashes: a front end may have backward passes in stages of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu import op_names
from tensorflow_ipu.planner.program.accesses import TENSOR_KIND, Accesses
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.schedule import PipelineDescription
from tensorflow_ipu.schedule.slots import stash_depths

# Ops whose results cannot be recomputed.
_STATEFUL = frozenset({op_names.INFEED, op_names.RANDOM_SEED})
_NONE = np.iinfo(np.int32).max


class StageStash(NamedTuple):
    """The stash of one stage on one IPU, as instances of `Accesses`.

    Args:
        stage: the stage.
        ipu: its IPU.
        depth: number of mini-batches in the stash.
        saved: instances of each mini-batch without recomputation.
        needed: instances of each mini-batch with recomputation.
    """

    stage: int
    ipu: int
    depth: int
    saved: np.ndarray
    needed: np.ndarray

    def kept(self, recompute: bool) -> np.ndarray:
        """Returns the instances that are stashed for each mini-batch.

        Args:
            recompute: whether the stage recomputes activations.
        """
        return self.needed if recompute else self.saved


class Phases(NamedTuple):
    """Stage and phase of each op, int32; -1 outside of stages.

    Args:
        stage: the stage.
        phase: 0 forward, 1 backward, 2 update.
    """

    stage: np.ndarray
    phase: np.ndarray


def phases_of(workload: Workload) -> Phases:
    """Returns stage and phase of each op."""
    count = len(workload.ops)
    stage = np.fromiter((-1 if o.stage is None else o.stage for o in workload.ops), np.int32, count)
    numbers = {"": 0, "forward": 0, "backward": 1, "update": 2}
    phase = np.fromiter((numbers.get(o.phase, 0) for o in workload.ops), np.int32, count)
    return Phases(stage, np.where(stage < 0, -1, phase))


def find(
    workload: Workload, accesses: Accesses, phases: Phases, description: PipelineDescription
) -> tuple[StageStash, ...]:
    """Returns the stash of each stage.

    Args:
        workload: the program.
        accesses: accesses of ops to buffers.
        phases: stage and phase of each op.
        description: the pipeline.
    """
    if not len(accesses.op):
        return ()
    if not description.training:
        return _asked(workload, accesses)
    maker = accesses.maker[accesses.instance_buffer]
    forward_made = (accesses.kind == TENSOR_KIND) & (maker >= 0) & (phases.phase[maker] == 0)
    stage, phase = phases.stage[accesses.op], phases.phase[accesses.op]
    backward = np.minimum.reduceat(np.where(phase == 1, stage, _NONE), accesses.first)
    backward[~forward_made] = _NONE
    stateful = np.array([op.type in _STATEFUL for op in workload.ops], dtype=bool)
    marks = checkpoints(workload)
    marked = np.zeros(len(accesses.first), bool)
    marked[accesses.instance[marks[accesses.op] & accesses.write]] = True
    depths = stash_depths(description)
    found = []
    used_by = _uses(accesses)
    for number in range(description.stages):
        reads = used_by & (phase == 0) & (stage == number)
        used = np.unique(accesses.instance[reads])
        given = (phases.stage[maker[used]] != number) | stateful[maker[used]] | marked[used]
        needed = used[forward_made[used] & given]
        saved = np.flatnonzero(backward == number)
        for ipu in np.unique(accesses.instance_ipu[saved]).tolist():
            here = saved[accesses.instance_ipu[saved] == ipu]
            again = needed[accesses.instance_ipu[needed] == ipu]
            if accesses.num_bytes[again].sum() > accesses.num_bytes[here].sum():
                again = here
            again = here if number == description.stages - 1 else again
            found.append(StageStash(number, ipu, depths[number], here, again))
    return tuple(found)


def _uses(accesses: Accesses) -> np.ndarray:
    """Returns whether each access is a read by an op that does not write the instance, bool."""
    key = accesses.op.astype(np.int64) * (len(accesses.first) + 1) + accesses.instance
    found: np.ndarray = ~np.isin(key, key[accesses.write])
    return found


def _asked(workload: Workload, accesses: Accesses) -> tuple[StageStash, ...]:
    """Returns the stashes that ops request, for their operands."""
    found = []
    for index, op in enumerate(workload.ops):
        depth = op.attributes.get("stash")
        if depth is not None:
            taken = np.unique(accesses.instance[(accesses.op == index) & ~accesses.write])
            found.append(StageStash(op.stage or 0, op.ipu or 0, depth, taken, taken))
    return tuple(found)


def num_bytes(stash: StageStash, accesses: Accesses, recompute: bool) -> int:
    """Returns the bytes of a stage's stash."""
    return stash.depth * int(accesses.num_bytes[stash.kept(recompute)].sum())


def checkpoints(workload: Workload) -> np.ndarray:
    """Returns whether each op is a checkpoint of recomputation, bool."""
    return np.array([op.is_checkpoint for op in workload.ops], dtype=bool)


def driven_by_gradients(accesses: Accesses, phases: Phases) -> np.ndarray:
    """Returns whether each op is of a backward pass and depends on a later stage's gradients.

    Args:
        accesses: accesses of ops to buffers.
        phases: stage and phase of each op.
    """
    phase, stage = phases.phase.tolist(), phases.stage.tolist()
    maker = accesses.maker[accesses.buffer]
    made = ~accesses.write & (maker >= 0)
    made[made] &= phases.phase[maker[made]] == 1
    made &= phases.phase[accesses.op] == 1
    found = [False] * len(phase)
    # Ops come after the producers of their operands.
    for index in np.flatnonzero(made)[np.argsort(accesses.op[made], kind="stable")].tolist():
        op, source = int(accesses.op[index]), int(maker[index])
        if stage[op] != stage[source] or found[source]:
            found[op] = True
    return np.array(found, dtype=bool)


class Times(NamedTuple):
    """Positions at which a stage's forward pass ends and its backward pass starts.

    Args:
        forward_end: position of the last op of its forward pass.
        backward_start: position of the first op of its backward pass.
    """

    forward_end: int
    backward_start: int


def times(phases: Phases, position: np.ndarray, stages: Sequence[int]) -> dict[int, Times]:
    """Returns the positions of each stage's forward and backward pass.

    Args:
        phases: stage and phase of each op.
        position: position of each op.
        stages: the stages.
    """
    found = {}
    for stage in stages:
        mine = phases.stage == stage
        forward = position[mine & (phases.phase == 0)]
        backward = position[mine & (phases.phase == 1)]
        found[stage] = Times(int(forward.max(initial=-1)), int(backward.min(initial=_NONE)))
    return found
