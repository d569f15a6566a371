"""The weight update of a pipeline: accumulates gradients and applies them once at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops
from tensorflow.python.training import optimizer as v1_optimizer
from tensorflow.python.util import nest

from tensorflow_ipu.api.accumulators import Accumulator, accumulator_dtype
from tensorflow_ipu.api.eager import backprop
from tensorflow_ipu.api.gradient_accumulation import MiniBatches
from tensorflow_ipu.compiler.ir import function_nodes
from tensorflow_ipu.compiler.ir.function_nodes import ALL_IPUS
from tensorflow_ipu.compiler.ir.program import SHARDING_ATTRIBUTE
from tensorflow_ipu.ops import optimizer_steps
from tensorflow_ipu.ops.pipeline.pipeline_arguments import PipelineArguments
from tensorflow_ipu.ops.pipeline.stages import StageRunner, handle_key, stage_scope
from tensorflow_ipu.ops.pipeline.types import OptimizerFunctionOutput, check_complete

# --- Captured gradients ---


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
        """Sends the result of `values` to the outfeed, if there is one."""
        return [] if self._outfeed is None else [self._outfeed.enqueue(values)]


# --- Weight update ---

# A gradient's accumulator, or the function that makes it of nothing, and the variable.
_Pairs = list[tuple[Any, Any]]


class WeightUpdate:
    """Accumulates the gradients of a mini-batch and applies them after the last one."""

    def __init__(
        self, arguments: PipelineArguments, output: OptimizerFunctionOutput, runner: StageRunner
    ) -> None:
        """Computes the gradients of this mini-batch."""
        self._output = output
        self._runner = runner
        self._captures = GradientCaptures(arguments, output)
        with self._captures.open():
            self._pairs = _compute_gradients(output)
        self._arguments = arguments
        self._totals: _Pairs = []
        self._ipus: dict[int, int] = {}

    def accumulate(self, batches: MiniBatches) -> None:
        """Adds the gradients to their accumulators, on the IPUs of their variables."""
        arguments = self._arguments
        for gradient, variable in self._pairs:
            if gradient is None:
                self._totals.append((self._no_gradient(variable), variable))
                continue
            stage, ipu = self._home(variable)
            with stage_scope(stage, ipu):
                total = batches.accumulate(
                    gradient,
                    accumulator_dtype(arguments.gradient_dtype, variable),
                    arguments.reduction,
                    name=f"accumulator_{len(self._totals)}",
                )
            if ipu != ALL_IPUS:
                self._ipus[handle_key(total.handle)] = ipu
            self._totals.append((total, variable))
        if self._captures.wanted:
            self._captures.accumulate(batches)

    def apply(self) -> list[ops.Operation]:
        """Builds the step of the optimizer."""
        output = self._output
        pairs = [
            (total.value() if isinstance(total, Accumulator) else total(), variable)
            for total, variable in self._totals
        ]
        captured = self._captures.values()
        step = optimizer_steps.apply_gradients(
            output.opt,
            pairs,
            captured,
            *output.apply_gradients_args,
            **output.apply_gradients_kwargs,
        )
        homes = self._runner.homes
        known = {key: ipu for key, (_, ipu) in homes.items() if ipu != ALL_IPUS}
        _follow_variables(ops.get_default_graph(), {**known, **self._ipus})
        # Some optimizers, such as those that scale the loss, return nothing.
        done = [] if step is None else [step.op if isinstance(step, tensor_lib.Tensor) else step]
        return [*done, *self._captures.enqueue(captured)]

    def _no_gradient(self, variable: Any) -> Callable[[], Any]:
        """Returns the function for the gradient of a variable that the loss does not depend on.

        For a variable of a stage that is zero: a stage is one function, which the loss depends on.
        """
        handle = getattr(variable, "handle", None)  # a program has no others
        if handle is None or handle_key(handle) not in self._runner.homes:
            return lambda: None
        dtype = accumulator_dtype(self._arguments.gradient_dtype, variable)
        return lambda: array_ops.zeros(variable.shape, dtype)

    def _home(self, variable: Any) -> tuple[int, int]:
        """Returns the stage and IPU of a variable: the last ones if no stage uses it."""
        last = (len(self._arguments.stages) - 1, self._arguments.devices[-1][-1])
        return self._runner.homes.get(handle_key(variable.handle), last)


def _compute_gradients(output: OptimizerFunctionOutput) -> _Pairs:
    check_complete(output)
    if isinstance(output.opt, v1_optimizer.Optimizer):
        return list(
            output.opt.compute_gradients(
                output.loss, *output.compute_gradients_args, **output.compute_gradients_kwargs
            )
        )
    variables = list(output.variables or output.tape.watched_variables())
    return optimizer_steps.compute_gradients(output.opt, output.loss, variables, output.tape)


def _follow_variables(graph: ops.Graph, ipu_of_handle: Mapping[int, int]) -> None:
    """Places the ops of an update: those that use a variable with it, others with their users.

    Args:
        graph: the graph of the update.
        ipu_of_handle: IPU of each variable, by the key of its handle.
    """
    operations = graph.get_operations()

    def of_variables(op: ops.Operation) -> int | None:
        handles = [t for t in op.inputs if t.dtype == dtypes.resource]
        found = (ipu_of_handle.get(handle_key(t)) for t in handles)
        return next((ipu for ipu in found if ipu is not None), None)

    def of_users(op: ops.Operation) -> int | None:
        users = (user for output in op.outputs for user in output.consumers())
        return next((ipu for ipu in map(_ipu, users) if ipu is not None), None)

    for rule, order in ((of_variables, operations), (of_users, operations[::-1])):
        _place(order, rule)


def _place(operations: list[ops.Operation], rule: Callable[[ops.Operation], int | None]) -> None:
    for op in operations:
        if op.type == "Placeholder" or _ipu(op) is not None:
            continue
        ipu = rule(op)
        if ipu is not None:
            op._set_attr(SHARDING_ATTRIBUTE, _sharding(ipu))


def _ipu(op: ops.Operation) -> int | None:
    found = function_nodes.node_ipus(op.node_def)
    return found[0] if found else None


def _sharding(ipu: int) -> attr_value_pb2.AttrValue:
    return function_nodes.sharding_attribute([ipu])
