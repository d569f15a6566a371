"""Pipelines over the IPUs of a replica; the module `popxl_addons.transforms.pipelining`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.transforms import (
    GradGraphInfo,
    outline,
    plan_as_pipeline,
    plan_stash,
)
from tensorflow_ipu.frontends.popxl_addons.transforms.pipeline_cycles import (
    Cycles,
    shares_state,
)

__all__ = ["Pipelining", "pipelined_execution"]


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
        """Returns what a tensor that is not of the pipeline holds in a stage."""
        ipus = [op.ipu for op, number in self._stages.items() if number == stage]
        with self.stage(stage), popxl.ipu(ipus[0]) if ipus else contextlib.nullcontext():
            return ops.identity(t)

    def stash_and_restore_activations(
        self, call_info: ops.CallSiteInfo, grad_info: GradGraphInfo
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Returns what to pass to a gradient graph in a later stage than that of its forward graph.

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
