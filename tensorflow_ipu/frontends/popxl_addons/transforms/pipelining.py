"""Pipelines: stages of a graph on IPUs of their own; `popxl_addons.transforms.pipelining`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ir import reachable, storage_of
from tensorflow_ipu.frontends.popxl.transforms import (
    GradGraphInfo,
    outline,
    plan_as_pipeline,
    plan_stash,
)

__all__ = ["Pipelining", "pipelined_execution"]


Tensor = popxl.Tensor


def shares_state(stages: Mapping[Any, int]) -> bool:
    """Returns whether a stage writes a tensor or remote buffer that another stage uses.

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
        inputs: its arguments: tensors of the caller or of other stages.
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
        """Calls stages, and keeps their results for other stages.

        Args:
            stages: the stages that have a micro-batch, in order.
            kept: of each tensor that other stages take the values that there are, newest first.
                These are replaced.
            inside: the counterparts of the caller's tensors.
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


class Pipelining:
    """A pipeline while it is built: `with pipelined_execution(steps) as pipeline:`.

    Attributes:
        steps: How many micro-batches pass through it.
    """

    def __init__(self, steps: int) -> None:
        """Starts a pipeline in the current graph.

        Args:
            steps: how many micro-batches pass through it.
        """
        self.steps = steps
        self._graph = popxl.gcg()
        self._stage: int | None = None
        self._stages: dict[Any, int] = {}
        self._hook = self._graph.register_op_created_hook(self._note)

    def __repr__(self) -> str:
        return f"Pipelining[{self.steps} steps, {len(set(self._stages.values()))} stages]"

    def _note(self, op: Any) -> None:
        """Notes the stage of a new op."""
        if self._stage is None:
            self._graph.ops.remove(op)
            raise RuntimeError(
                f"{op!r} must be created in a stage context: `with pipeline.stage(0):`."
            )
        self._stages[op] = self._stage

    @contextlib.contextmanager
    def stage(self, stage: int) -> Iterator[None]:
        """Puts the ops created inside into a stage.

        Args:
            stage: number of the stage, from 0.

        Yields:
            Nothing.
        """
        before, self._stage = self._stage, stage
        try:
            yield
        finally:
            self._stage = before

    def stash_and_restore_tensor(
        self, t: popxl.Tensor, from_stage: int | None = None
    ) -> popxl.Tensor:
        """Returns the value that a tensor had for the same micro-batch in an earlier stage.

        Args:
            t: a tensor of that stage.
            from_stage: the stage; that of the op that makes the tensor by default.

        Raises:
            RuntimeError: If nothing says which stage it is of, or there is no current stage.
            TypeError: If the current stage is not a later one.
        """
        if from_stage is None:
            from_stage = self._stages.get(t.producer)
        if from_stage is None or self._stage is None:
            raise RuntimeError(
                f"The stage of {t!r} is not known: no op of the pipeline makes it. Pass from_stage,"
                " in a stage context."
            )
        if self._stage <= from_stage:
            raise TypeError(
                f"Stash must be larger than 1: from stage {from_stage} to a later one. Received: "
                f"stage {self._stage}"
            )
        if t.producer not in self._stages:
            t = self._copied_in(t, from_stage)
        restored = ops.identity(t, output_name=f"{t.name}_restored")
        plan_stash(popxl.gcg().ops[-1], self._stage - from_stage)
        return restored

    def _copied_in(self, t: popxl.Tensor, stage: int) -> popxl.Tensor:
        """Returns the copy in a stage of a tensor from outside the pipeline."""
        ipus = [op.ipu for op, number in self._stages.items() if number == stage]
        with self.stage(stage), popxl.ipu(ipus[0]) if ipus else contextlib.nullcontext():
            return ops.identity(t)

    def stash_and_restore_activations(
        self, call_info: ops.CallSiteInfo, grad_info: GradGraphInfo
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Returns the operands of a gradient graph, stashed if another stage made them.

        Args:
            call_info: the call of the forward graph.
            grad_info: the gradient graph.

        Returns:
            Tensors by input of the gradient graph; those of other stages are stashed.
        """
        found = {}
        for name, tensor in grad_info.inputs_dict(call_info).items():
            stage = self._stages.get(tensor.producer)
            kept = stage is None or stage == self._stage
            found[name] = tensor if kept else self.stash_and_restore_tensor(tensor)
        return found

    def close(self) -> None:
        """Ends the pipeline without a loop."""
        self._graph.remove_op_created_hook(self._hook)

    def build(self) -> None:
        """Makes the ops a loop over micro-batches.

        Raises:
            ValueError: If there are fewer than two steps for each stage.
        """
        stages = len(set(self._stages.values()))
        if self.steps < 2 * stages:
            raise ValueError(
                f"Pipelining requires the steps at least 2x the number of stages, {stages}. "
                f"Received: steps={self.steps}"
            )
        if shares_state(self._stages):
            Cycles(self._graph, self._stages).run(self.steps)
        else:
            self._repeat()

    def _repeat(self) -> None:
        """Makes the ops a loop in which one micro-batch passes through all stages.

        Results are those of stages that work at the same time, as none writes what another uses.
        """
        moved = list(self._stages)
        earlier = [op for one in moved for op in one.after if op not in self._stages]
        graph, inputs = outline(self._graph, moved, "pipeline_graph")
        info = ops.repeat_with_info(graph, self.steps, inputs_dict=inputs)
        before = [op for op in info.op.after if op not in self._stages]
        info.op.after = list(dict.fromkeys([*earlier, *before]))
        plan_as_pipeline(info.op, self._stages)


@contextlib.contextmanager
def pipelined_execution(steps: int) -> Iterator[Pipelining]:
    """Makes the ops created inside a pipeline: a loop in which stages work on different batches.

    Stage s has the micro-batch m in the cycle m + s; in a cycle the stages run in their order. So
    results are those of one micro-batch after the other, but where a stage writes what another one
    uses: that sees it at another micro-batch. Tensors go from stage to stage by `copy_to_ipu`.

    Args:
        steps: how many micro-batches pass through it, at least two for each stage.

    Yields:
        The pipeline, whose `stage` every op needs.

    Raises:
        ValueError: If there are too few steps, or a stage takes what a later one makes.
        RuntimeError: If an op has no stage.
    """
    pipeline = Pipelining(steps)
    try:
        yield pipeline
    finally:
        pipeline.close()
    pipeline.build()
