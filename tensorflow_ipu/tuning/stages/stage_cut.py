"""`LayerTable`: cycles, memory and copies of layers, and their best cut into stages."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.chip.exchange import link_cycles, links_between, sync_cycles
from tensorflow_ipu.planner import schedule as schedules
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.program.resources import costs_of
from tensorflow_ipu.planner.program.structure import BACKWARD, FORWARD, Structure
from tensorflow_ipu.planner.schedule import Phase, PipelineDescription, PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import pipeline_time, timeline
from tensorflow_ipu.planner.workload import TENSOR, Workload
from tensorflow_ipu.tuning.edits import restage

# Phases that layers have cycles in.
_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
#: Cuts that are timed by their schedule.
MOST_TIMED = 100
# Rounds of mini-batches that they are timed with: a schedule repeats itself.
_ROUNDS = 4


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a split.

    Attributes:
        layers: Its layers, in order.
        forward: Cycles of the forward pass of one mini-batch, without copies to other stages.
        backward: Cycles of the backward pass.
        update: Cycles of one weight update.
        memory: Bytes of its variables, and of the activations of one mini-batch.
        copied: Bytes that go to other stages for one mini-batch.
    """

    layers: tuple[str, ...]
    forward: float
    backward: float
    update: float
    memory: int
    copied: int

    @property
    def cycles(self) -> float:
        """Cycles of one mini-batch, both ways."""
        return self.forward + self.backward


class _Price(NamedTuple):
    """The price of a stage or a run of stages; less is better, compared field by field.

    Args:
        excess: bytes of the worst stage beyond its memory.
        cycles: of the slowest stage for a mini-batch, with its part of an update and its copies; or
            of the schedule.
        copied: bytes between stages.
    """

    excess: float
    cycles: float
    copied: float

    def then(self, other: _Price) -> _Price:
        """Returns the price with another stage."""
        return _Price(
            max(self.excess, other.excess),
            max(self.cycles, other.cycles),
            self.copied + other.copied,
        )


_FREE = _Price(0.0, 0.0, 0.0)


class LayerTable:
    """Cycles, memory and copies of layers, and of runs of them.

    Args:
        workload: the program.
        settings: chip, replicas and options.
        found: section and layer of its ops.
    """

    def __init__(self, workload: Workload, settings: Settings, found: Structure) -> None:
        self._chip = settings.chip
        self._layers = found.layers
        self._cycles = _cycles(workload, settings, found)
        self._memory = _memory(workload, found)
        self._crossings = restage.crossings(workload, found)

    def cut(self, description: PipelineDescription, capacity: int) -> list[int]:
        """Returns the end of each stage: one past the index of its last layer.

        Few cuts are compared by the length of their schedule. Of many, the cut whose slowest stage
        is fastest is improved by moving one layer at a time while its schedule gets shorter: a
        schedule may wait for the slowest forward pass, the slowest backward pass and the slowest
        update. Fewer bytes beyond the memory of an IPU come before speed.

        Args:
            description: the pipeline.
            capacity: bytes of one IPU.
        """
        number, stages = len(self._layers), description.stages
        if stages == 1:
            return [number]
        price = self._timer(description, capacity)
        if math.comb(number - 1, stages - 1) <= MOST_TIMED:
            cuts = itertools.combinations(range(1, number), stages - 1)
            return min(([*cut, number] for cut in cuts), key=price)
        ends = self._fastest_stages(stages, capacity, max(description.count, 1))
        best, tried = price(ends), 1
        while tried < MOST_TIMED:
            moves = [(price(moved), moved) for moved in _neighbors(ends)]
            tried += len(moves)
            if not moves or min(moves)[0] >= best:
                break
            best, ends = min(moves)
        return ends

    def stages(self, ends: Sequence[int]) -> tuple[Stage, ...]:
        """Returns the stages of a cut.

        Args:
            ends: the end of each stage.
        """
        copied = [0] * len(ends)
        for source, _, size, _ in self._copies(ends):
            copied[source] += size
        forward, backward, update = (
            np.add.reduceat(self._cycles[phase], [0, *ends[:-1]]).tolist() for phase in _PHASES
        )
        memory = np.add.reduceat(self._memory, [0, *ends[:-1]]).tolist()
        return tuple(
            Stage(
                self._layers[begin:end],
                *(forward[stage], backward[stage], update[stage]),
                *(memory[stage], copied[stage]),
            )
            for stage, (begin, end) in enumerate(zip([0, *ends], ends))
        )

    def _fastest_stages(self, stages: int, capacity: int, count: int) -> list[int]:
        """Returns the cut whose slowest stage is fastest.

        Dynamic programming over the end of each stage. A stage's price is its bytes beyond the
        memory, its cycles, its copied bytes, in this order. A split's price is its worst stage's.
        """
        number = len(self._layers)
        prices = self._prices(capacity, count)
        best: list[dict[int, tuple[_Price, int]]] = [{0: (_FREE, 0)}]
        for _ in range(stages):
            reached: dict[int, tuple[_Price, int]] = {}
            for begin, (before, _) in best[-1].items():
                for end in range(begin + 1, number + 1):
                    total = before.then(prices[begin, end])
                    if end not in reached or total < reached[end][0]:
                        reached[end] = (total, begin)
            best.append(reached)
        ends = [number]
        for part in reversed(best[2:]):
            ends.append(part[ends[-1]][1])
        return ends[::-1]

    def _prices(self, capacity: int, count: int) -> dict[tuple[int, int], _Price]:
        """Returns the price of each run of layers as a stage."""
        number = len(self._layers)
        forward, backward, update = (self._cycles[phase] for phase in _PHASES)
        cycles = _sums(forward + backward + update / count)
        memory = _sums(self._memory)
        wait = sync_cycles(2, self._chip)
        links = self._leaving(lambda crossing: link_cycles(crossing.num_bytes, self._chip) + wait)
        sizes = self._leaving(lambda crossing: crossing.num_bytes)
        return {
            (begin, end): _Price(
                max(0.0, float(memory[end] - memory[begin]) - capacity),
                float(cycles[end] - cycles[begin] + links[begin, end]),
                float(sizes[begin, end]),
            )
            for begin in range(number)
            for end in range(begin + 1, number + 1)
        }

    def _leaving(self, weight: Callable[[restage.Crossing], float]) -> np.ndarray:
        """Returns the weight of the tensors that leave each run of layers, by its begin and end.

        Such a tensor is made in the run and used outside. It counts once, even if it goes to
        several stages.
        """
        number = len(self._layers)
        made, inside = np.zeros(number), np.zeros((number + 1, number + 1))
        for crossing in self._crossings:
            everywhere = {crossing.maker, *crossing.users}
            made[crossing.maker] += weight(crossing)
            inside[min(everywhere), max(everywhere) + 1] += weight(crossing)
        # By begin and end: tensors made between, without tensors that only layers between use.
        all_made = _sums(made)
        only = inside[::-1].cumsum(axis=0)[::-1].cumsum(axis=1)
        return (all_made[np.newaxis, :] - all_made[:, np.newaxis]) - only

    def _copies(self, ends: Sequence[int]) -> Iterator[tuple[int, int, int, str]]:
        """Yields source, destination, bytes and phase of each copy of a cut."""
        stage_of = np.repeat(np.arange(len(ends)), np.diff([0, *ends])).tolist()
        for maker, users, num_bytes, phase in self._crossings:
            source = stage_of[maker]
            for target in {stage_of[user] for user in users} - {source}:
                yield source, target, num_bytes, phase

    def _timer(
        self, description: PipelineDescription, capacity: int
    ) -> Callable[[Sequence[int]], _Price]:
        """Returns a function that prices a cut by its schedule, on a part of the mini-batches."""
        fewest = description.stages * (2 if description.training else 1)
        count = min(description.count, _ROUNDS * fewest)
        schedule = schedules.build(dataclasses.replace(description, count=count, repeat_count=1))
        part = count / max(description.count, 1)

        def price(ends: Sequence[int]) -> _Price:
            costs = self._costs(ends, description.training, part)
            memory = np.add.reduceat(self._memory, [0, *ends[:-1]])
            return _Price(
                max(0.0, float(memory.max()) - capacity),
                schedules.timed(schedule, costs).total,
                float(sum(size for _, _, size, _ in self._copies(ends))),
            )

        return price

    def _costs(self, ends: Sequence[int], training: bool, part: float) -> schedules.Costs:
        """Returns the cycles of a cut's stages with their copies, and a part of the update's."""
        begins = [0, *ends[:-1]]
        sums = {phase: np.add.reduceat(self._cycles[phase], begins) for phase in _PHASES}
        wait = sync_cycles(len(ends), self._chip)
        sums[Phase.FORWARD] += wait
        sums[Phase.BACKWARD] += wait
        for source, target, size, phase in self._copies(ends):
            cycles = link_cycles(size, self._chip, links_between(source, target, self._chip))
            at = Phase.BACKWARD if phase == BACKWARD else Phase.FORWARD
            sums[at][source] += cycles + sync_cycles(2, self._chip)
        return schedules.Costs(
            sums[Phase.FORWARD].tolist(),
            sums[Phase.BACKWARD].tolist() if training else None,
            update=(sums[Phase.UPDATE] * part).tolist(),
        )


def _sums(numbers: np.ndarray) -> np.ndarray:
    """Returns the sums of the first 0, 1, 2, ... numbers of an array."""
    return np.concatenate([[0], numbers.cumsum()])


def _neighbors(ends: Sequence[int]) -> Iterator[list[int]]:
    """Yields the cuts with one layer in the stage before or after its own."""
    for place in range(len(ends) - 1):
        before = ends[place - 1] if place else 0
        for end in (ends[place] - 1, ends[place] + 1):
            if before < end < ends[place + 1]:
                yield [*ends[:place], end, *ends[place + 1 :]]


def _cycles(workload: Workload, settings: Settings, found: Structure) -> dict[Phase, np.ndarray]:
    """Returns cycles of each layer by phase, for one mini-batch or update, by the plan's rules.

    Each layer is a stage of its own for that, all on one IPU, so that nothing is copied.
    """
    number = len(found.layers)
    training = BACKWARD in found.sections
    apart = PipelineDescription(
        tuple(range(number)), 2, training, PipelineSchedule.Sequential, any_count=True
    )
    staged = restage.restaged(workload, found, range(number), apart)
    alone = settings.replace(stage_devices=None, stage_options={}, recompute=False)
    placed = placed_workload.place(staged, (0,) * number)
    _, items = timeline.collect(placed, alone, costs_of(staged, alone))
    begin, end = pipeline_time.body(placed.relocated)
    inside = timeline.between(timeline.in_body(items, begin), (begin, end))
    pipeline = dataclasses.replace(apart, device_mapping=(0,) * number)
    costs = pipeline_time.stage_costs(placed.relocated, pipeline, inside, settings.chip)
    return {
        phase: np.array([costs.cycles(phase, layer, 0) for layer in range(number)], np.float64)
        for phase in _PHASES
    }


def _memory(workload: Workload, found: Structure) -> np.ndarray:
    """Returns bytes of each layer's variables, with gradient sums, and of its activations."""
    sizes = np.zeros(len(found.layers), np.int64)
    homes = restage.homes(workload, found)
    for index, variable in enumerate(workload.variables):
        times = 2 if index in found.trained and not found.accumulated else 1
        if not variable.offloaded:
            sizes[homes.get(index, 0)] += times * variable.share
    seen = set()
    for op, section, layer in zip(workload.ops, found.sections, found.layer_of):
        for operand in op.outputs if section == FORWARD and layer >= 0 else ():
            buffer = None if operand.buffer is None else workload.buffers[operand.buffer]
            if buffer is not None and buffer.kind == TENSOR and operand.buffer not in seen:
                seen.add(operand.buffer)
                sizes[layer] += buffer.num_bytes
    return sizes
