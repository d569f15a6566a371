"""Pipelines whose stages share state: cycles in which each stage has another micro-batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ir import reachable, storage_of
from tensorflow_ipu.frontends.popxl.transforms import outline

Tensor = popxl.Tensor


def shares_state(stages: Mapping[Any, int]) -> bool:
    """Returns whether one stage writes what another one uses: tensors or remote buffers.

    Args:
        stages: the stage of each op.
    """
    used: dict[Any, set[int]] = {}
    written = set()
    for op, stage in stages.items():
        for state, is_written in _state(op):
            if getattr(state, "producer", None) not in stages:
                used.setdefault(state, set()).add(stage)
                written.update([state] if is_written else [])
    return any(len(used[state]) > 1 for state in written)


def _state(op: Any) -> Iterator[tuple[Any, bool]]:
    """Yields the tensors with storage of their own and the buffers of an op, and if it writes."""
    for position, tensor in enumerate(op.inputs):
        for root in storage_of(tensor):
            yield root, position in op.writes
    for inner in (op, *(one for called in op.called for g in reachable(called) for one in g.ops)):
        if "buffer" in inner.attributes:
            yield inner.attributes["buffer"], not inner.outputs


@dataclasses.dataclass
class _Stage:
    """A stage as a graph.

    Attributes:
        number: its number, from 0.
        ipu: the IPU of its first op.
        graph: the graph.
        inputs: what is passed for its inputs: tensors of the caller or of other stages.
        earlier: ops of the caller that the program orders before it.
    """

    number: int
    ipu: int
    graph: popxl.Graph
    inputs: dict[Tensor, Tensor]
    earlier: list[Any]


class Cycles:
    """A pipeline as it runs: in cycle c, stage s has the micro-batch c - s.

    In the first and last cycles some stages have none. What a stage makes for one that is n stages
    later is kept for n cycles.
    """

    def __init__(self, main: popxl.Graph, stages: Mapping[Any, int]) -> None:
        """Makes a graph of each stage.

        Args:
            main: the graph with the ops of the pipeline, its last ones.
            stages: the stage of each op.

        Raises:
            ValueError: If a stage takes what a later one makes.
        """
        self._main = main
        numbers = {stage: number for number, stage in enumerate(sorted(set(stages.values())))}
        staged = {op: numbers[stage] for op, stage in stages.items()}
        self._moved = set(staged)
        crossing = list(_crossing(staged).items())
        self._stages = []
        for number in range(len(numbers)):
            outputs = [tensor for tensor, (made, _) in crossing if made == number]
            self._stages.append(self._stage(number, staged, outputs))
        # Of each tensor that other stages take: the stage that makes it, and how much later. Moved
        # tensors have other ids, so this is made last.
        self._kept = dict(crossing)

    def __repr__(self) -> str:
        return f"Cycles[{len(self._stages)} stages]"

    def run(self, steps: int) -> None:
        """Adds the cycles to the graph.

        Args:
            steps: how many micro-batches there are, at least as many as stages.
        """
        count = len(self._stages)
        before = len(self._main.ops)
        kept: dict[Tensor, list[Tensor]] = {tensor: [] for tensor in self._kept}
        with popxl.in_sequence():
            for cycle in range(count - 1):
                self._cycle(self._stages[: cycle + 1], kept, {})
            self._repeat(steps - count + 1, kept)
            for cycle in range(1, count):
                self._cycle(self._stages[cycle:], kept, {})
        earlier = [op for stage in self._stages for op in stage.earlier]
        for number, op in enumerate(self._main.ops[before:]):
            after = [*(earlier if number == 0 else ()), *op.after]
            op.after = list(dict.fromkeys(one for one in after if one not in self._moved))

    def _stage(self, number: int, stages: Mapping[Any, int], outputs: Sequence[Tensor]) -> _Stage:
        """Moves the ops of a stage into a graph."""
        own = [op for op, stage in stages.items() if stage == number]
        earlier = [one for op in own for one in op.after if one not in stages]
        ipu = own[0].ipu
        graph, inputs = outline(self._main, own, f"pipeline_stage_{number}", outputs)
        return _Stage(number, ipu, graph, inputs, earlier)

    def _cycle(
        self,
        stages: Sequence[_Stage],
        kept: dict[Tensor, list[Tensor]],
        inside: Mapping[Tensor, Tensor],
    ) -> None:
        """Calls stages, and keeps what they make for others.

        Args:
            stages: the stages that have a micro-batch, in order.
            kept: of each tensor that other stages take the values that there are, newest first.
                These are replaced.
            inside: what stands for tensors of the caller.
        """
        made: dict[Tensor, Tensor] = {}
        for stage in stages:
            passed = {}
            for inner, outer in stage.inputs.items():
                if outer in kept:
                    passed[inner] = kept[outer][stage.number - self._kept[outer][0] - 1]
                else:
                    passed[inner] = inside.get(outer, outer)
            with popxl.ipu(stage.ipu):
                results = ops.call(stage.graph, inputs_dict=passed)
            made.update(zip(stage.graph.outputs, results))
        for tensor, values in kept.items():
            newest = made.get(tensor, values[0] if values else None)
            if newest is not None:
                kept[tensor] = [newest, *values][: self._kept[tensor][1]]

    def _repeat(self, cycles: int, kept: dict[Tensor, list[Tensor]]) -> None:
        """Adds a loop over the cycles in which all stages have a micro-batch."""
        graph = self._main.ir.create_empty_graph("pipeline_graph")
        carried = [value for values in kept.values() for value in values]
        first = iter(carried)
        outside = dict.fromkeys(
            outer for stage in self._stages for outer in stage.inputs.values() if outer not in kept
        )
        with graph, popxl.in_sequence():
            own = {t: [_input(next(first), False) for _ in values] for t, values in kept.items()}
            by_ref = {
                outer
                for stage in self._stages
                for inner, outer in stage.inputs.items()
                if inner.by_ref
            }
            inside = {outer: _input(outer, outer in by_ref) for outer in outside}
            self._cycle(self._stages, own, inside)
            for value in (value for values in own.values() for value in values):
                popxl.graph_output(value)
        same = {inner: outer for outer, inner in inside.items()}
        results = iter(ops.repeat(graph, cycles, *carried, inputs_dict=same))
        for tensor, values in kept.items():
            kept[tensor] = [next(results) for _ in values]


def _crossing(stages: Mapping[Any, int]) -> dict[Tensor, tuple[int, int]]:
    """Returns the tensors that later stages take: the stage that makes each, and how much later."""
    found: dict[Tensor, tuple[int, int]] = {}
    for op, stage in stages.items():
        for tensor in op.inputs:
            made = stages.get(tensor.producer, stage)
            if made > stage:
                raise ValueError(
                    f"{op!r} ({op.site}) of stage {stage} takes {tensor!r}, which stage {made} "
                    "makes. Stages take what earlier ones make."
                )
            if made < stage:
                distance = max(stage - made, found.get(tensor, (made, 0))[1])
                found[tensor] = (made, distance)
    return found


def _input(like: Tensor, by_ref: bool) -> Tensor:
    """Adds an input like another tensor to the current graph."""
    return popxl.graph_input(like.shape, like.dtype, like.name, by_ref, like.meta_shape)
