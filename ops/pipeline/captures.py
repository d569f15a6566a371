"""Passes captured gradients of a pipeline to the optimizer and to an outfeed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tensorflow.python.framework import ops
from tensorflow.python.util import nest

from tensorflow_ipu.api.eager import backprop
from tensorflow_ipu.api.gradient_accumulation import MiniBatches
from tensorflow_ipu.ops.pipeline.arguments import PipelineArguments
from tensorflow_ipu.ops.pipeline.stages import stage_scope
from tensorflow_ipu.ops.pipeline.types import OptimizerFunctionOutput
from tensorflow_ipu.training import optimizer_steps
from tensorflow_ipu.training.accumulators import accumulator_dtype


class GradientCaptures:
    """The gradients that are captured in the backward pass of a mini-batch.

    Attributes:
        wanted: Whether somebody takes them; if not, they need not be accumulated.
    """

    def __init__(self, arguments: PipelineArguments, output: OptimizerFunctionOutput) -> None:
        """Finds out whether any are wanted."""
        self._arguments = arguments
        self._outfeed = output.captured_gradient_outfeed
        own = output.gradient_capture_context
        if own is None and isinstance(output.tape, backprop.GradientCaptureContext):
            own = output.tape
        self._context = own or backprop.current()
        self.wanted = (
            own is not None
            or self._outfeed is not None
            or optimizer_steps.takes_captured_gradients(output.opt)
        )
        # A new one each time: a program may be traced again, and the user's context has what was
        # captured then.
        self._found = backprop.GradientCaptureContext()
        self._get_values: Callable[[], dict[str, list[Any]]] = dict

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a scope for the backward pass."""
        if not self.wanted and self._context is not None:
            return contextlib.nullcontext()
        return self._found

    def accumulate(self, batches: MiniBatches) -> None:
        """Adds them to accumulators, or leaves them as they are.

        Raises:
            ValueError: If nothing was captured, and there is an outfeed for it.
        """
        # Computed from the last stage to the first, and named from the first to the last.
        found = dict(reversed(self._found.captured_gradients.items()))
        if self._context is not None:
            self._context.replace_gradients(found)
        if self._outfeed is not None and not found:
            raise ValueError(
                "There is a captured_gradient_outfeed, but no gradients were captured. Use "
                "capture_upstream_gradients in a stage, on tensors that the loss depends on."
            )
        if not self._arguments.accumulate_captured:
            self._get_values = lambda: found
            return
        arguments = self._arguments
        with stage_scope(len(arguments.stages) - 1, arguments.devices[-1][-1]):
            totals = nest.map_structure(
                lambda gradient: batches.accumulate(
                    gradient,
                    accumulator_dtype(arguments.gradient_dtype, gradient),
                    arguments.reduction,
                    name="captured",
                ),
                found,
            )
        self._get_values = lambda: nest.map_structure(lambda total: total.value(), totals)

    def values(self) -> dict[str, list[Any]]:
        """Reads them, in the update."""
        return self._get_values()

    def enqueue(self, values: dict[str, list[Any]]) -> list[ops.Operation]:
        """Sends what `values` returned to the outfeed, if there is one."""
        return [] if self._outfeed is None else [self._outfeed.enqueue(values)]
