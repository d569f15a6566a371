"""Sizes of the stashes of pipeline stages between forward and backward pass.

While a stage works on a mini-batch, those that passed through it before and are not back yet are in
its stash: `depth` of them, which the schedule tells. Of each there is what the stage's forward pass
made and its backward pass uses; with recomputation only what the stage cannot make again: what it
was given by other stages and feeds, and the results of checkpoints. Random ops make the same again
from the seed that the device drew for them, of some bytes. The last stage goes backward at once,
so it makes nothing again. A stash is always live. Of a pipeline that does not train there is what
ops ask for: a front end may have backward passes in stages of their own.
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

# Ops whose results cannot be made again.
_STATEFUL = frozenset({op_names.INFEED, op_names.RANDOM_SEED})
_NONE = np.iinfo(np.int32).max


class StageStash(NamedTuple):
    """The stash of one stage on one IPU, as instances of `Accesses`.

    Args:
        stage: the stage.
        ipu: its IPU.
        depth: mini-batches that are put aside.
        saved: what of each is there without recomputation.
        needed: what of each is there with recomputation.
    """

    stage: int
    ipu: int
    depth: int
    saved: np.ndarray
    needed: np.ndarray

    def kept(self, recompute: bool) -> np.ndarray:
        """Returns what is stashed of each mini-batch.

        Args:
            recompute: whether the stage computes again.
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
    """Finds what each stage puts aside.

    Args:
        workload: the program.
        accesses: who uses what.
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
    """Whether each access is a read by an op that does not make the thing or pass it on, bool."""
    key = accesses.op.astype(np.int64) * (len(accesses.first) + 1) + accesses.instance
    found: np.ndarray = ~np.isin(key, key[accesses.write])
    return found


def _asked(workload: Workload, accesses: Accesses) -> tuple[StageStash, ...]:
    """The stashes that ops ask for, of what they take."""
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
    """Returns whether each op is of a backward pass and works with what came from its later stages.

    Args:
        accesses: who uses what.
        phases: stage and phase of each op.
    """
    phase, stage = phases.phase.tolist(), phases.stage.tolist()
    maker = accesses.maker[accesses.buffer]
    made = ~accesses.write & (maker >= 0)
    made[made] &= phases.phase[maker[made]] == 1
    made &= phases.phase[accesses.op] == 1
    found = [False] * len(phase)
    # Ops come after the makers of what they use.
    for index in np.flatnonzero(made)[np.argsort(accesses.op[made], kind="stable")].tolist():
        op, source = int(accesses.op[index]), int(maker[index])
        if stage[op] != stage[source] or found[source]:
            found[op] = True
    return np.array(found, dtype=bool)


class Times(NamedTuple):
    """Positions of a stage's passes and of the forward uses of what it saves.

    Args:
        forward_end: position of the last op of its forward pass.
        backward_start: position of the first op of its backward pass.
    """

    forward_end: int
    backward_start: int


def times(phases: Phases, position: np.ndarray, stages: Sequence[int]) -> dict[int, Times]:
    """Returns when each stage goes forward and backward.

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
