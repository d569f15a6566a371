"""`LayerTable`: cycles, memory and copies of layers, and their best cut into stages."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.label import worst
from tensorflow_ipu.planner.alternatives import restage
from tensorflow_ipu.planner.program.resources import costs_of
from tensorflow_ipu.planner.program.sections import BACKWARD, FORWARD, UPDATE
from tensorflow_ipu.planner.program.structure import Structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import TENSOR, Workload


@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a split.

    Attributes:
        layers: Its layers, in order.
        forward: Cycles of the forward pass of one mini-batch.
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
    """What a stage or a run of stages costs; less is better, the first that differs decides.

    Args:
        excess: bytes that do not fit, of the worst stage.
        cycles: of the slowest stage.
        copied: bytes between stages.
    """

    excess: float
    cycles: float
    copied: float

    def then(self, other: _Price) -> _Price:
        """The price with another stage."""
        return _Price(
            max(self.excess, other.excess),
            max(self.cycles, other.cycles),
            self.copied + other.copied,
        )


_FREE = _Price(0.0, 0.0, 0.0)


class LayerTable:
    """Cycles, memory and copies of layers, and of runs of them."""

    def __init__(self, workload: Workload, settings: Settings, found: Structure) -> None:
        self._layers = found.layers
        number = len(found.layers)
        self._cycles = {name: np.zeros(number) for name in (FORWARD, BACKWARD, UPDATE)}
        # A mini-batch runs an op of the loop over mini-batches once, those of inner loops often.
        labels = []
        costs = costs_of(workload, settings)
        for index, op in enumerate(workload.ops):
            section, layer = found.sections[index], found.layer_of[index]
            if layer < 0 or not section or op.end > index + 1:
                continue
            cost = costs[index]
            runs = max(1, round(op.runs / found.mini_batches))
            self._cycles[section][layer] += cost.cycles * runs
            labels.append(cost.label)
        self.label = worst(labels)
        self._memory = _memory(workload, found)
        sent = np.zeros((number, number))
        for (source, destination), size in restage.edges(workload, found).items():
            sent[source, destination] = size
        # Sums over all layers before a pair of layers: what goes between runs is four of them.
        self._sent = np.zeros((number + 1, number + 1))
        self._sent[1:, 1:] = sent.cumsum(axis=0).cumsum(axis=1)

    def cut(self, stages: int, capacity: int) -> list[int]:
        """Returns the end of each stage: one past the index of its last layer.

        Dynamic programming over the end of each stage. A stage's price is, in this order, by how
        much it exceeds the memory, its cycles, what it copies; a split's is that of its worst
        stage.
        """
        number = len(self._layers)
        prices = {
            (begin, end): self._price(begin, end, capacity)
            for begin in range(number)
            for end in range(begin + 1, number + 1)
        }
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

    def stage(self, begin: int, end: int) -> Stage:
        """Returns the stage of a run of layers."""
        sums = {name: float(cycles[begin:end].sum()) for name, cycles in self._cycles.items()}
        return Stage(
            self._layers[begin:end],
            sums[FORWARD],
            sums[BACKWARD],
            sums[UPDATE],
            int(self._memory[begin:end].sum()),
            self._copied(begin, end),
        )

    def _price(self, begin: int, end: int, capacity: int) -> _Price:
        cycles = self._cycles[FORWARD][begin:end].sum() + self._cycles[BACKWARD][begin:end].sum()
        excess = max(0.0, float(self._memory[begin:end].sum()) - capacity)
        return _Price(excess, float(cycles), float(self._copied(begin, end)))

    def _copied(self, begin: int, end: int) -> int:
        """Bytes that layers of a stage send to others."""
        sent = self._sent
        everything = sent[end, -1] - sent[begin, -1]
        inside = sent[end, end] - sent[begin, end] - sent[end, begin] + sent[begin, begin]
        return int(everything - inside)


def _memory(workload: Workload, found: Structure) -> np.ndarray:
    """Bytes of each layer's variables, with sums of gradients, and of its activations."""
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
