"""Arguments of a pipeline: checked, in one form, and with an IPU for each stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np
from tensorflow.python.framework import dtypes, ops, tensor_util
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import math_ops

from tensorflow_ipu.api.accumulators import AccumulatorDtype
from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.compiler.ir import function_nodes
from tensorflow_ipu.compiler.ir.function_nodes import ALL_IPUS
from tensorflow_ipu.configs.ranges import INT32, Range
from tensorflow_ipu.feeds import ipu_infeed_queue, ipu_outfeed_queue
from tensorflow_ipu.ops.pipeline.types import PipelineStageOptions
from tensorflow_ipu.planner.schedule import PipelineSchedule, RecomputationMode

# --- Stages and their IPUs ---

Stage = Callable[..., Any]
# One stage, or stages that run in parallel on IPUs of their own.
StageOrStages = Union[Stage, Sequence[Stage]]


def stage_list(computational_stages: Any) -> tuple[tuple[Stage, ...], ...]:
    """Returns the functions of each stage.

    Raises:
        TypeError: If it is no list or tuple, or has members that cannot be called.
        ValueError: If there are fewer than two stages.
    """
    if not isinstance(computational_stages, (list, tuple)):
        raise TypeError(
            "computational_stages must be a list or tuple of functions. Received: "
            f"{computational_stages!r}"
        )
    if len(computational_stages) < 2:
        raise ValueError(
            "Pipeline requires at least two computational stages. Received: "
            f"{len(computational_stages)}"
        )
    stages = []
    for index, stage in enumerate(computational_stages):
        members = tuple(stage) if isinstance(stage, (list, tuple)) else (stage,)
        if not members or not all(callable(member) for member in members):
            raise TypeError(
                "A computational stage must be a function or a list of functions that run in "
                f"parallel. Received for stage {index}: {stage!r}"
            )
        stages.append(members)
    return tuple(stages)


def stage_devices(
    device_mapping: Any, computational_stages: Sequence[Any], serialization: int
) -> tuple[tuple[int, ...], ...]:
    """Returns for each stage the IPU of each of its functions, or `ALL_IPUS`.

    Args:
        device_mapping: the user's argument, or None for one IPU after the other.
        computational_stages: the user's argument.
        serialization: Mini-batches in one execution of a stage.

    Raises:
        TypeError: If a mapping is no list, or an IPU no integer.
        ValueError: If the lengths differ, or there is no such IPU.
    """
    if device_mapping is None:
        return _default_devices(computational_stages, serialization)
    if not isinstance(device_mapping, (list, tuple)):
        raise TypeError(
            "device_mapping argument needs to be a list or a tuple. It has an IPU for each stage. "
            f"Received: {device_mapping!r}"
        )
    if len(device_mapping) != len(computational_stages):
        raise ValueError(
            f"Each stage must be mapped to an IPU: received {len(computational_stages)} "
            f"computational_stages and {len(device_mapping)} entries in device_mapping."
        )
    devices = []
    for index, (stage, device) in enumerate(zip(computational_stages, device_mapping)):
        parallel = isinstance(stage, (list, tuple))
        members = tuple(device) if isinstance(device, (list, tuple)) else (device,)
        if parallel != isinstance(device, (list, tuple)) or (
            parallel and len(members) != len(stage)
        ):
            raise ValueError(
                f"Each stage must be mapped to an IPU: entry {index} of device_mapping must have "
                f"the form of stage {index}, {'a list' if parallel else 'one function'}. "
                f"Received: {device!r}"
            )
        devices.append(tuple(_ipu(index, member) for member in members))
    return tuple(devices)


def _default_devices(
    computational_stages: Sequence[Any], serialization: int
) -> tuple[tuple[int, ...], ...]:
    """Returns IPU after IPU, or the first for all stages of a serialized pipeline."""
    devices = []
    following = 0
    for stage in computational_stages:
        size = len(stage) if isinstance(stage, (list, tuple)) else 1
        first = 0 if serialization > 1 else following
        devices.append(tuple(range(first, first + size)))
        following += size
    return tuple(devices)


def _ipu(stage: int, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"device_mapping must hold the index of an IPU for stage {stage}. Received: {value!r}"
        )
    if value < ALL_IPUS:
        raise ValueError(
            "Each stage must be mapped to an IPU: an index >= 0, or -1 for all IPUs of the "
            f"pipeline. Received for stage {stage}: {value}"
        )
    return int(value)


def resolved(devices: tuple[tuple[int, ...], ...], highest: int) -> tuple[tuple[int, ...], ...]:
    """Returns for each stage the IPUs that it is on.

    Args:
        devices: the result of `stage_devices`.
        highest: the highest IPU that ops of the stages name.
    """
    ipus = range(max(highest, *(ipu for members in devices for ipu in members), 0) + 1)
    return tuple(
        tuple(ipu for member in members for ipu in (ipus if member == ALL_IPUS else [member]))
        for members in devices
    )


def named_ipus(op: ops.Operation) -> tuple[int, ...]:
    """Returns the IPUs that a scope in a stage has put an op on; empty without one."""
    return function_nodes.node_ipus(op.node_def)


def share_ipus(devices: tuple[tuple[int, ...], ...]) -> bool:
    """Returns whether stages, or functions of a parallel stage, are on one IPU."""
    used = [ipu for members in devices for ipu in members]
    return len(set(used)) < len(used) or (ALL_IPUS in used and len(used) > 1)


# --- Checks ---

# The number of mini-batches of an execution; an execution of none does nothing.
_MINI_BATCHES = Range(1, INT32, "mini-batches", below="must be >= 0, and not 0 either")


@dataclasses.dataclass(frozen=True)
class PipelineArguments:
    """The arguments of a pipeline, under the names of `pipelining_ops.pipeline`.

    Attributes:
        stages: The functions of each stage: one, or several that run in parallel.
        devices: For each stage the IPU of each of its functions, or `ALL_IPUS`.
        count: Mini-batches of an execution: an int or a scalar int32 tensor.
        memory: Options that decide where variables and activations are kept.
        stage_options: Poplar options, as dicts, by part of the pipeline.
        names_reduction: Whether the user named the reduction, which programs for the SDKs of
            TensorFlow 1 cannot.
        accumulate_captured: Whether captured gradients are accumulated.
    """

    stages: tuple[tuple[Stage, ...], ...]
    devices: tuple[tuple[int, ...], ...]
    count: Any
    repeat_count: Any
    serialization: int
    inputs: tuple[Any, ...]
    infeed_queue: Any
    outfeed_queue: Any
    optimizer_function: Callable[..., Any] | None
    schedule: PipelineSchedule
    recomputation_mode: RecomputationMode
    gradient_dtype: AccumulatorDtype
    reduction: GradientAccumulationReductionMethod
    names_reduction: bool
    outfeed_loss: bool
    outfeed_mask: tuple[bool, ...] | None
    accumulate_outfeed: bool
    accumulate_outfeed_dtype: AccumulatorDtype
    memory: dict[str, bool | None]
    stage_options: dict[str, Any]
    accumulate_captured: bool
    name: str

    @property
    def training(self) -> bool:
        """Whether there is something to minimise."""
        return self.optimizer_function is not None

    def __post_init__(self) -> None:
        """Checks arguments that depend on each other."""
        _check_serialization(self)
        _check_outfeed(self)
        if self.schedule is PipelineSchedule.Interleaved and self.training:
            if share_ipus(self.devices):
                raise NotImplementedError(
                    "The pipelining schedule 'Interleaved' does not currently support multiple "
                    "pipeline stages on the same device for training graphs. Received: "
                    f"device_mapping={self.devices}. Use another schedule, or one IPU for each "
                    "stage."
                )


def mini_batch_count(gradient_accumulation_count: Any) -> Any:
    """Returns the number of mini-batches of an execution: an int, or a scalar int32 tensor.

    Raises:
        ValueError: If it is missing, below 1, or no whole number.
    """
    if gradient_accumulation_count is None:
        raise ValueError("gradient_accumulation_count must be specified.")
    value = gradient_accumulation_count
    if isinstance(value, (tensor_lib.Tensor, np.ndarray)):
        tensor = ops.convert_to_tensor(value)
        value = tensor_util.constant_value(tensor)
        if value is None and tensor.dtype.is_integer and tensor.shape.rank in (0, None):
            return math_ops.cast(tensor, dtypes.int32)
        if value is None:
            raise ValueError(
                "gradient_accumulation_count must be an integer >= 1, or a scalar tensor of the "
                f"type int32. Received: {gradient_accumulation_count!r}"
            )
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _MINI_BATCHES.whole("gradient_accumulation_count", value)


def repetitions(name: str, count: Any, per_execution: Any = 1) -> Any:
    """Returns how often something is done: an int, or a tensor as it is.

    Args:
        name: name of the argument.
        count: the user's argument.
        per_execution: how many iterations of a loop each time takes.

    Raises:
        ValueError: If it is a number that the loop cannot count to.
    """
    if not isinstance(count, (bool, int, float, str, np.generic)):
        return count
    limit = INT32 if isinstance(per_execution, tensor_lib.Tensor) else INT32 // per_execution
    return Range(0, limit).whole(name, count)


def check_type(name: str, value: Any, wanted: Any, what: str) -> None:
    """Checks the class of an argument.

    Raises:
        TypeError: If it is another.
    """
    if value is not None and not isinstance(value, wanted):
        raise TypeError(f"{name} must be {what}. Received: {value!r}")


def check_queues(infeed_queue: Any, outfeed_queue: Any) -> None:
    """Checks the classes of the queues.

    Raises:
        TypeError: If one is no queue.
    """
    check_type("infeed_queue", infeed_queue, ipu_infeed_queue.IPUInfeedQueue, "an IPUInfeedQueue")
    check_type(
        "outfeed_queue", outfeed_queue, ipu_outfeed_queue.IPUOutfeedQueue, "an IPUOutfeedQueue"
    )


def stage_options(
    forward: Any, backward: Any, update: Any, stages: int
) -> dict[str, list[dict[str, dict[str, str]]] | dict[str, dict[str, str]]]:
    """Returns the Poplar options of the parts of a pipeline as dicts.

    Raises:
        TypeError: If something is not a PipelineStageOptions.
        ValueError: If a list has another length than there are stages.
    """
    result: dict[str, Any] = {}
    for part, options in (("forward", forward), ("backward", backward)):
        if options is None:
            continue
        name = f"{part}_propagation_stages_poplar_options"
        check_type(name, options, (list, tuple), "a list with PipelineStageOptions for each stage")
        if len(options) != stages:
            raise ValueError(
                f"{name} must be a list or a tuple of PipelineStageOptions objects of length "
                f"{stages}, one for each computational stage. Received: {len(options)}"
            )
        for entry in options:
            _check_stage_options(f"every entry of {name}", entry)
        result[part] = [entry.to_dict() for entry in options]
    if update is not None:
        _check_stage_options("weight_update_poplar_options", update)
        result["update"] = update.to_dict()
    return result


def _check_stage_options(name: str, value: Any) -> None:
    if not isinstance(value, PipelineStageOptions):
        raise TypeError(
            f"Expected {name} to be of type PipelineStageOptions, but got {type(value).__name__}. "
            f"Received: {value!r}"
        )


def _check_serialization(arguments: PipelineArguments) -> None:
    if arguments.serialization == 1:
        return
    if arguments.schedule is not PipelineSchedule.Sequential:
        raise NotImplementedError(
            "Batch serialization is only supported with the `Sequential` schedule. Received: "
            f"batch_serialization_iterations={arguments.serialization}, "
            f"pipeline_schedule={arguments.schedule}"
        )
    if len({ipu for members in arguments.devices for ipu in members}) > 1:
        raise NotImplementedError(
            "When using batch serialization, all the pipeline stages need to be mapped to a single "
            f"IPU. Received: device_mapping={arguments.devices}"
        )
    if arguments.reduction is not GradientAccumulationReductionMethod.SUM:
        raise ValueError(
            "Batch serialization is only supported with the reduction method SUM. Received: "
            f"{arguments.reduction}"
        )


def _check_outfeed(arguments: PipelineArguments) -> None:
    masked = arguments.outfeed_mask is not None
    if arguments.outfeed_loss and masked:
        raise ValueError("Only one of `outfeed_loss` and `outfeed_mask` can be set.")
    for name, is_set in (
        ("outfeed_loss is True", arguments.outfeed_loss),
        ("outfeed_mask is set", masked),
    ):
        if is_set and not arguments.training:
            raise ValueError(
                f"An optimizer_function must be provided when {name}. Pass one, or leave that out: "
                "inference sends all that the last stage returns."
            )
    queue = arguments.outfeed_queue
    if arguments.outfeed_loss and queue is None:
        raise ValueError(
            "An outfeed_queue must be provided when outfeed_loss is True, for the loss."
        )
    if not arguments.accumulate_outfeed:
        return
    if queue is None:
        raise ValueError("`accumulate_outfeed` needs an `outfeed_queue` for the sums.")
    mode = ipu_outfeed_queue.feed_of(queue).mode
    if mode is not ipu_outfeed_queue.IPUOutfeedMode.ALL:
        raise ValueError(
            "To accumulate the outfeed, it must be in IPUOutfeedMode ALL. Make the queue with "
            f"outfeed_mode=IPUOutfeedMode.ALL. Received: {mode}"
        )


def input_list(inputs: Any) -> list[Any]:
    """Returns the inputs of the first stage as a list.

    Args:
        inputs: a list or tuple, None for none, or a single value.
    """
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
