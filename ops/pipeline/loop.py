"""The loop over mini-batches that runs a pipeline, and the weight update at its end."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python import tf2
from tensorflow.python.framework import dtypes, ops, tensor_util
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops
from tensorflow.python.training import optimizer as v1_optimizer
from tensorflow.python.util import nest

from tensorflow_ipu.api import loops
from tensorflow_ipu.api.accumulators import Accumulator, accumulator_dtype
from tensorflow_ipu.api.eager import backprop
from tensorflow_ipu.api.gradient_accumulation import MiniBatches
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.compiler.ir import function_nodes
from tensorflow_ipu.compiler.ir.function_nodes import ALL_IPUS
from tensorflow_ipu.compiler.ir.program import PIPELINE_ATTRIBUTE, SHARDING_ATTRIBUTE
from tensorflow_ipu.ops import iteration, optimizer_steps
from tensorflow_ipu.ops.pipeline import pipeline_arguments
from tensorflow_ipu.ops.pipeline.pipeline_arguments import PipelineArguments
from tensorflow_ipu.ops.pipeline.stages import StageRunner, as_arguments, handle_key, stage_scope
from tensorflow_ipu.ops.pipeline.types import OptimizerFunctionOutput, check_complete
from tensorflow_ipu.planner.schedule import PipelineDescription

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


# --- The loop over mini-batches that runs a pipeline ---


def build(arguments: PipelineArguments) -> ops.Operation:
    """Builds the loop of a pipeline.

    Args:
        arguments: the user's arguments.

    Returns:
        The operation that runs it.
    """
    per_execution = arguments.count * arguments.serialization

    def mini_batch() -> ops.Operation:
        inside = arguments
        if isinstance(arguments.count, tensor_lib.Tensor):
            # Stages must not use tensors from outside, but the loop may.
            inside = dataclasses.replace(arguments, count=array_ops.identity(arguments.count))
        iteration.restart_every(inside.count * inside.serialization)
        return _mini_batch(inside, _known_count(arguments))

    with ops.name_scope(arguments.name):
        return loops.repeat(arguments.repeat_count * per_execution, mini_batch, [])


def _known_count(arguments: PipelineArguments) -> int | None:
    """Returns the number of mini-batches of an execution, None if nobody knows it yet."""
    if isinstance(arguments.count, tensor_lib.Tensor):
        return trace.known_number(arguments.count)
    return int(arguments.count)


def _mini_batch(arguments: PipelineArguments, known_count: int | None) -> ops.Operation:
    """Builds the work of one mini-batch."""
    runner = StageRunner(arguments)
    outputs = runner.run()
    batches = MiniBatches(
        arguments.count * arguments.serialization,
        PIPELINE_ATTRIBUTE,
        _attribute(arguments, known_count, runner.highest_ipu),
        arguments.name,
    )
    update = None
    loss = None
    # Also refuses outputs without a queue, before gradients are computed.
    sent = None if arguments.outfeed_loss else _outfeed_value(arguments, outputs)
    if arguments.optimizer_function is not None:
        result = _call_optimizer_function(arguments.optimizer_function, outputs)
        loss = result.loss
        update = WeightUpdate(arguments, result, runner)
        update.accumulate(batches)
    with stage_scope(len(arguments.stages) - 1, arguments.devices[-1][-1]):
        sent = loss if arguments.outfeed_loss else sent
        totals = _Totals(arguments, sent, batches) if arguments.accumulate_outfeed else None
        now = [] if sent is None or totals else [arguments.outfeed_queue.enqueue(sent)]

    def at_the_end() -> list[ops.Operation]:
        operations = update.apply() if update else []
        if totals is not None:
            operations.append(totals.enqueue())
        return operations

    with ops.control_dependencies(now):
        return batches.then_update(at_the_end)


def _attribute(arguments: PipelineArguments, count: int | None, highest_ipu: int) -> dict[str, Any]:
    """Returns the description of the pipeline for the compiler, an attribute of the counter.

    Args:
        arguments: the pipeline.
        count: Mini-batches of an execution, None if that is not known.
        highest_ipu: the highest IPU that ops of stages on all IPUs name.
    """
    repeat = tensor_util.constant_value(ops.convert_to_tensor(arguments.repeat_count))
    devices = pipeline_arguments.resolved(arguments.devices, highest_ipu)
    description = PipelineDescription(
        device_mapping=tuple(d[0] if len(d) == 1 else d for d in devices),
        count=0 if count is None else count,
        training=arguments.training,
        schedule=arguments.schedule,
        repeat_count=1 if repeat is None else max(1, int(repeat)),
        batch_serialization_iterations=arguments.serialization,
        recomputation=arguments.recomputation_mode,
    )
    return {
        "name": arguments.name,
        "description": description.to_json(),
        "devices": devices,
        "memory": arguments.memory,
        "stages": [[getattr(f, "__name__", repr(f)) for f in fs] for fs in arguments.stages],
        "options": arguments.stage_options,
    }


def _call_optimizer_function(function: Callable[..., Any], outputs: Any) -> OptimizerFunctionOutput:
    """Calls the user's optimizer function with the outputs of the last stage."""
    values, named = as_arguments(outputs)
    result = tensorflow_hooks.converted(function)(*values, **named)
    if not isinstance(result, OptimizerFunctionOutput):
        raise TypeError(
            "The optimizer_function of a pipeline must return an OptimizerFunctionOutput. "
            f"Received: {result!r}"
        )
    return result


def _outfeed_value(arguments: PipelineArguments, outputs: Any) -> Any:
    """Returns the outputs that go to the outfeed for a mini-batch, or None for nothing.

    Raises:
        ValueError: If there are outputs and no queue, or the mask has another length.
    """
    values, named = as_arguments(outputs)
    if arguments.training:
        return _masked(arguments, [*values, *named.values()])
    if not values and not named:
        return None
    _check_outfeed(arguments, [*values, *named.values()])
    if named:
        return named
    single = not isinstance(outputs, (list, tuple))
    # What a program written for TensorFlow 1 gets for a single tensor is a list of one.
    return outputs if single and (tf2.enabled() or arguments.names_reduction) else values


def _masked(arguments: PipelineArguments, values: list[Any]) -> list[Any] | None:
    mask = arguments.outfeed_mask
    if mask is not None:
        if len(mask) != len(values):
            raise ValueError(
                "outfeed_mask must have one entry for each output of the last stage. Received: "
                f"{len(mask)} entries for {len(values)} outputs"
            )
        values = [value for value, left_out in zip(values, mask) if not left_out]
    _check_outfeed(arguments, values)
    return values or None


def _check_outfeed(arguments: PipelineArguments, values: list[Any]) -> None:
    """Raises if there are results and no outfeed."""
    if values and arguments.outfeed_queue is None:
        mask = ", or leave them out with outfeed_mask" if arguments.training else ""
        raise ValueError(
            f"The last computational stage has tensor outputs: "
            f"{', '.join(value.name for value in values)}, but no outfeed_queue has been provided. "
            f"Pass one{mask}, or return nothing from the last stage."
        )


class _Totals:
    """Sums over mini-batches, for the outfeed."""

    def __init__(self, arguments: PipelineArguments, sent: Any, batches: MiniBatches) -> None:
        self._queue = arguments.outfeed_queue
        self._form = sent
        self._ipu = arguments.devices[-1][-1]
        self._stage = len(arguments.stages) - 1
        self._totals = [
            batches.accumulate(
                value, accumulator_dtype(arguments.accumulate_outfeed_dtype, value), name="outfeed"
            )
            for value in nest.flatten(sent)
        ]

    def enqueue(self) -> ops.Operation:
        """Sends the sums."""
        with stage_scope(self._stage, self._ipu):
            values = [total.value() for total in self._totals]
            return self._queue.enqueue(nest.pack_sequence_as(self._form, values))
