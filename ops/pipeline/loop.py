"""The loop over mini-batches that runs a pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tensorflow.python import tf2
from tensorflow.python.framework import ops, tensor_util
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops
from tensorflow.python.util import nest

from tensorflow_ipu.api import loops
from tensorflow_ipu.api.accumulators import accumulator_dtype
from tensorflow_ipu.api.gradient_accumulation import MiniBatches
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.compiler.ir.program import PIPELINE_ATTRIBUTE
from tensorflow_ipu.ops import iteration
from tensorflow_ipu.ops.pipeline import pipeline_arguments
from tensorflow_ipu.ops.pipeline.pipeline_arguments import PipelineArguments
from tensorflow_ipu.ops.pipeline.stages import StageRunner, as_arguments, stage_scope
from tensorflow_ipu.ops.pipeline.types import OptimizerFunctionOutput
from tensorflow_ipu.ops.pipeline.update import WeightUpdate
from tensorflow_ipu.planner.schedule import PipelineDescription


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
