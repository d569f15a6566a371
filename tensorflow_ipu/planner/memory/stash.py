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

from tensorflow_ipu.planner.memory.liveness import ELEMENTWISE, Intervals, Order
from tensorflow_ipu.planner.program.accesses import TENSOR_KIND, Accesses
from tensorflow_ipu.planner.program.structure import BACKWARD, FORWARD, UPDATE
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.schedule.builder import stash_depths
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.util import op_names

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


# --- Liveness of activations that are stashed or recomputed ---

# The base is a stretch of time for each instance of a buffer, from the op that makes it to the last
# that uses it. A stash or a recomputation splits stretches in two, with a gap in which the memory
# is free.

# Ops that are cheap beside convolutions and matrix products.
_NORMS = """
    FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 PopnnGroupNormTraining
    PopnnGroupNormInference IpuGroupNorm IpuGroupNormTraining IpuLayerNorm Cast Softmax LogSoftmax
    MaxPool AvgPool
    """.split()


CHEAP = ELEMENTWISE | frozenset(_NORMS)


_NUMBERS = {FORWARD: 1, BACKWARD: 2, UPDATE: 2}


class _Splits:
    """Live ranges, some of which are being split."""

    def __init__(self, accesses: Accesses, base: Intervals) -> None:
        count = len(accesses.first)
        self.start = np.full(count, -1, np.int64)
        self.stop = np.full(count, -2, np.int64)
        self.start[base.instance] = base.start
        self.stop[base.instance] = base.stop
        self._second: dict[int, tuple[int, int]] = {}

    def split(self, instance: int, pause: int, resume: int) -> None:
        """Frees the memory of an instance after `pause` and before `resume`."""
        start, stop = int(self.start[instance]), int(self.stop[instance])
        pause = max(pause, start)
        if instance in self._second or not start <= pause < resume - 1 or resume > stop:
            return
        self._second[instance] = (resume, stop)
        self.stop[instance] = pause

    def hold(self, instance: int, until: int) -> None:
        """Extends the live range of an instance."""
        self.stop[instance] = max(int(self.stop[instance]), until)

    def result(self) -> Intervals:
        """Returns the live ranges."""
        chosen = np.flatnonzero(self.start <= self.stop)
        again = np.array(list(self._second), np.int64)
        later = np.array(list(self._second.values()), np.int64).reshape(-1, 2)
        return Intervals(
            np.concatenate([chosen, again]).astype(np.int32),
            np.concatenate([self.start[chosen], later[:, 0]]),
            np.concatenate([self.stop[chosen], later[:, 1]]),
        )


def pipelined(
    workload: Workload,
    accesses: Accesses,
    order: Order,
    base: Intervals,
    phases: Phases,
    stashes: Sequence[StageStash],
    recompute: bool,
    at_once: bool,
) -> Intervals:
    """Returns the live ranges in a pipeline, without stashes.

    A stashed activation leaves the stage's memory at the end of its forward pass, and comes back at
    the start of its backward pass. A recomputed activation leaves after its last use in the forward
    pass. It comes back with all activations between the same two checkpoints, when a gradient first
    needs one of them; a stage without checkpoints is one such part. Ops of the backward pass on
    activations alone, such as squares, wait until then, wherever the program has them.

    Args:
        workload: the program.
        accesses: accesses of ops to buffers.
        order: order of the ops.
        base: the live ranges without pipeline.
        phases: stage and phase of each op.
        stashes: the stash of each stage.
        recompute: whether stages recompute activations.
        at_once: whether a whole stage is recomputed before its backward pass.
    """
    splits = _Splits(accesses, base)
    when = times(phases, order.position, sorted({stash.stage for stash in stashes}))
    at = order.position[accesses.op].astype(np.int64)
    backward = phases.phase[accesses.op] >= 1
    last_forward = np.maximum.reduceat(np.where(backward, -1, at), accesses.first)
    nowhere = len(order.ops) + 1
    first_backward = np.minimum.reduceat(np.where(backward, at, nowhere), accesses.first)
    parts = _Parts(workload, accesses, order, phases)
    for stash in stashes:
        stage = when[stash.stage]
        kept = stash.kept(recompute)
        made = np.setdiff1d(stash.saved, kept)
        resumes = parts.resumes(stash.stage, made, last_forward)
        for instance, resume in zip(made.tolist(), resumes.tolist()):
            resume = min(resume, stage.backward_start) if at_once else resume
            splits.split(instance, int(last_forward[instance]), resume)
        for instance in kept.tolist():
            if first_backward[instance] == nowhere:
                # Only recomputed values need it.
                held = stage.forward_end if stash.depth else stage.backward_start - 1
                splits.hold(instance, held)
            elif stash.depth:
                pause = max(int(last_forward[instance]), stage.forward_end)
                splits.split(instance, pause, stage.backward_start)
    return splits.result()


class _Parts:
    """The parts of the stages' forward passes between checkpoints."""

    def __init__(
        self, workload: Workload, accesses: Accesses, order: Order, phases: Phases
    ) -> None:
        marks = checkpoints(workload) & (phases.phase == 0)
        self._marks = {
            stage: np.sort(order.position[marks & (phases.stage == stage)])
            for stage in np.unique(phases.stage[marks]).tolist()
        }
        self._first = accesses.first
        self._stage = phases.stage[accesses.op]
        self._at = order.position[accesses.op].astype(np.int64)
        self._at[~driven_by_gradients(accesses, phases)[accesses.op]] = len(order.ops) + 1

    def resumes(self, stage: int, made: np.ndarray, last_forward: np.ndarray) -> np.ndarray:
        """Returns the position at which each recomputed instance of a stage has to exist, int64.

        A result made before a checkpoint for ops after it, such as a cast of a weight, belongs to
        the part after it. A result that another stage uses too has to exist for that stage as well.

        Args:
            stage: the stage.
            made: instances that it recomputes.
            last_forward: position of the last op of the forward pass that uses each instance.
        """
        marks = self._marks.get(stage, np.zeros(0, np.int64))
        part = np.searchsorted(marks, last_forward[made])
        here = np.where(self._stage == stage, self._at, self._at.max(initial=0))
        first = np.full(len(marks) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, part, np.minimum.reduceat(here, self._first)[made])
        found: np.ndarray = np.minimum(
            first[part], np.minimum.reduceat(self._at, self._first)[made]
        )
        return found


def local(
    workload: Workload,
    accesses: Accesses,
    order: Order,
    base: Intervals,
    pairs: np.ndarray,
    sections: Sequence[str],
) -> Intervals:
    """Returns the live ranges with cheap ops' results recomputed in the backward pass.

    A result is recomputed at its first use in the backward pass, if its operands are live then. So
    the live memory is never more than without recomputation.

    Args:
        workload: the program.
        accesses: accesses of ops to buffers.
        order: order of the ops.
        base: the live ranges without recomputation.
        pairs: results and the operands whose memory they may reuse.
        sections: section of each op, as in `Structure`.
    """
    splits = _Splits(accesses, base)
    search = _Search(workload, accesses, splits, pairs, sections)
    at = order.position[accesses.op].astype(np.int64)
    backward = search.section[accesses.op] == 2
    nowhere = len(order.ops) + 1
    first = np.minimum.reduceat(np.where(backward, at, nowhere), accesses.first)
    last = np.maximum.reduceat(np.where(backward, -1, at), accesses.first)
    chosen = search.candidates((first < nowhere) & (last < first))
    wanted: dict[int, int] = {}
    for instance, maker in chosen:
        resume = min(int(first[instance]), wanted.get(instance, nowhere))
        needed: list[int] = []
        if search.can_make(maker, resume, needed):
            splits.split(instance, int(last[instance]), resume)
            for source in needed:
                wanted[source] = min(resume, wanted.get(source, resume))
    return splits.result()


class _Search:
    """Search for instances that can be recomputed."""

    def __init__(
        self,
        workload: Workload,
        accesses: Accesses,
        splits: _Splits,
        pairs: np.ndarray,
        sections: Sequence[str],
    ) -> None:
        self._workload = workload
        self._accesses = accesses
        self._starts, self._stops = splits.start.tolist(), splits.stop.tolist()
        self._in_place = {(op, source) for op, source, _ in pairs.tolist()}
        self.section = np.array([_NUMBERS.get(name, 0) for name in sections], np.int32)
        cheap = np.array([op.type in CHEAP for op in workload.ops], dtype=bool)
        self._cheap = cheap & (self.section == 1)
        reads = ~accesses.write & self._cheap[accesses.op]
        self._inputs: dict[int, list[int]] = {}
        for op, instance in zip(accesses.op[reads].tolist(), accesses.instance[reads].tolist()):
            self._inputs.setdefault(op, []).append(instance)

    def candidates(self, used: np.ndarray) -> list[tuple[int, int]]:
        """Yields instances and their makers, last made first: they need instances made before.

        Args:
            used: whether an instance is used in the backward pass, after the forward pass.
        """
        accesses = self._accesses
        maker = accesses.maker[accesses.instance_buffer]
        possible = (accesses.kind == TENSOR_KIND) & accesses.home & (maker >= 0) & used
        chosen = np.flatnonzero(possible)
        chosen = chosen[self._cheap[maker[chosen]]]
        chosen = chosen[np.argsort(-maker[chosen], kind="stable")]
        return list(zip(chosen.tolist(), maker[chosen].tolist()))

    def can_make(self, op: int, when: int, needed: list[int]) -> bool:
        """Returns whether an op's operands are live at a position, or can replace its result there.

        Args:
            op: the op.
            when: the position.
            needed: gets the instances that have to be there.
        """
        accesses = self._accesses
        for source in self._inputs.get(op, ()):
            if accesses.kind[source] != TENSOR_KIND:
                continue
            if self._starts[source] <= when <= self._stops[source]:
                needed.append(source)
                continue
            maker = int(accesses.maker[accesses.instance_buffer[source]])
            in_place = maker >= 0 and (op, source) in self._in_place and self._cheap[maker]
            if not in_place or not self.can_make(maker, when, needed):
                return False
        return True
