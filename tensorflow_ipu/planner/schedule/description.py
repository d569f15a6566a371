"""The input of a schedule: a pipeline's stages, counts and options."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Sequence
from typing import Any, Union

from tensorflow_ipu.util import errors

# --- Enumerations of a pipeline: schedules, recomputation modes and phases ---


class PipelineSchedule(enum.Enum):
    """Interleaving of the stages of a pipeline on its IPUs.

    Attributes:
        Grouped: In each time slot all IPUs go forward, or all go backward. Activations wait long
            for their backward pass, but IPUs wait little for each other.
        Interleaved: In a time slot some IPUs go forward while others go backward. Activations wait
            half as long, but a forward pass takes the time of a backward pass beside it.
        Sequential: One mini-batch at a time, as in a model that is only sharded.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(enum.Enum):
    """The ways to recompute the activations that a backward pass needs.

    Attributes:
        Auto: The usual mode of the schedule.
        RecomputeThenBackpropagate: All of a stage's activations, then its backward pass.
        RecomputeAndBackpropagateInterleaved: Each activation just before it is needed.
    """

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class Phase(enum.IntEnum):
    """The kind of work of an IPU in one cell of a schedule."""

    FORWARD = 0
    RECOMPUTE = 1
    BACKWARD = 2
    UPDATE = 3


# --- The input of a schedule: a pipeline's stages, counts and options ---

# The IPU of a stage, or one for each member of a parallel stage.
StageDevice = Union[int, tuple[int, ...]]


_ENUMS = {"schedule": PipelineSchedule, "recomputation": RecomputationMode}


_COUNTS = ("count", "repeat_count", "batch_serialization_iterations")


@dataclasses.dataclass(frozen=True)
class PipelineDescription:
    """The facts of a pipeline that its schedule depends on.

    Attributes:
        device_mapping: IPU of each stage, within a replica; a tuple for a parallel stage, whose
            members run at the same time.
        count: Mini-batches of one execution (`gradient_accumulation_count`). 0 before the program
            is compiled if they are known only when it runs.
        training: Whether there are backward passes and a weight update.
        schedule: Order of the work.
        repeat_count: Number of executions, which are all alike.
        batch_serialization_iterations: Mini-batches that a stage handles one after the other each
            time it runs; an execution has `count` times as many.
        recomputation: How activations are recomputed; None if they are kept.
        io_overlap: Whether I/O tiles load and store while the other tiles compute.
        any_count: Whether any number of mini-batches will do that is not below the number of
            stages. That is a property of the interface that the pipeline was made with.
    """

    device_mapping: tuple[StageDevice, ...]
    count: int
    training: bool = True
    schedule: PipelineSchedule = PipelineSchedule.Grouped
    repeat_count: int = 1
    batch_serialization_iterations: int = 1
    recomputation: RecomputationMode | None = None
    io_overlap: bool = False
    any_count: bool = False

    def __post_init__(self) -> None:
        mapping = tuple(
            tuple(entry) if isinstance(entry, (list, tuple)) else entry
            for entry in self.device_mapping
        )
        object.__setattr__(self, "device_mapping", mapping)
        _check_mapping(mapping)
        for name in _COUNTS:
            least = 0 if name == "count" else 1
            if getattr(self, name) < least:
                raise ValueError(
                    f"{name} of a pipeline must be at least {least}, got {getattr(self, name)}."
                )
        for name, cls in _ENUMS.items():
            value = getattr(self, name)
            if not isinstance(value, cls) and not (name == "recomputation" and value is None):
                raise TypeError(f"{name} must be a {cls.__name__}, got {value!r}.")

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.device_mapping)

    @property
    def mini_batches(self) -> int:
        """Mini-batches of one execution of the pipeline."""
        return self.count * self.batch_serialization_iterations

    @property
    def ipus_of_stages(self) -> tuple[tuple[int, ...], ...]:
        """The different IPUs of each stage, in order."""
        return tuple(tuple(sorted(set(members(entry)))) for entry in self.device_mapping)

    @property
    def ipus(self) -> tuple[int, ...]:
        """The IPUs that have a stage, in order."""
        return tuple(sorted({ipu for ipus in self.ipus_of_stages for ipu in ipus}))

    @property
    def resolved_recomputation(self) -> RecomputationMode | None:
        """The mode in use: `Auto` resolved, None without a backward pass."""
        if not self.training or self.recomputation is not RecomputationMode.Auto:
            return self.recomputation if self.training else None
        if self.schedule is PipelineSchedule.Sequential:
            return RecomputationMode.RecomputeAndBackpropagateInterleaved
        return RecomputationMode.RecomputeThenBackpropagate

    def to_json(self) -> str:
        """Returns the description as JSON, the same text for equal descriptions."""
        fields = dataclasses.asdict(self)
        for name in _ENUMS:
            fields[name] = getattr(fields[name], "name", None)
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> PipelineDescription:
        """Returns the description that `to_json` wrote.

        Args:
            text: JSON. Fields that have a default may be missing.

        Raises:
            ValueError: If the text is not the JSON of a description.
        """
        fields: dict[str, Any] = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError(f"A pipeline's description is a JSON object, got {fields!r}.")
        try:
            for name, enumeration in _ENUMS.items():
                if fields.get(name) is not None:
                    fields[name] = enumeration[fields[name]]
            return cls(**fields)
        except (KeyError, TypeError) as error:
            names = ", ".join(field.name for field in dataclasses.fields(cls))
            raise ValueError(
                f"Not the description of a pipeline: {error}. Its fields are {names}."
            ) from error


def members(device: StageDevice) -> tuple[int, ...]:
    """Returns the IPUs of a stage, one for each member of a parallel stage."""
    return device if isinstance(device, tuple) else (device,)


def _check_mapping(mapping: Sequence[StageDevice]) -> None:
    if not mapping:
        raise ValueError("The device_mapping of a pipeline is empty: give an IPU for each stage.")
    for entry in mapping:
        ipus = members(entry)
        if not ipus or not all(isinstance(ipu, int) and ipu >= 0 for ipu in ipus):
            raise ValueError(
                "Each stage must be mapped to an IPU, a number from 0, or a parallel stage to a "
                f"tuple of such numbers; got {entry!r} in the device_mapping {tuple(mapping)!r}."
            )


# --- Checks that a schedule supports a pipeline ---

# Mini-batches more that loading and storing beside the computation keep in flight.
_IO_OVERLAP = 2


_REFUSED = {
    PipelineSchedule.Sequential: RecomputationMode.RecomputeThenBackpropagate,
    PipelineSchedule.Interleaved: RecomputationMode.RecomputeAndBackpropagateInterleaved,
}


def check(description: PipelineDescription) -> None:
    """Raises if the schedule of a pipeline does not support it.

    Args:
        description: the pipeline.

    Raises:
        tf.errors.FailedPreconditionError: If the schedule cannot run that many mini-batches.
        tf.errors.UnimplementedError: If the schedule does not have the recomputation mode.
    """
    _check_count(description)
    _check_recomputation(description)


def required_multiple(description: PipelineDescription) -> int:
    """Returns the divisor of a valid count of mini-batches."""
    if description.schedule is PipelineSchedule.Sequential or description.any_count:
        return 1
    both_ways = description.training and description.schedule is PipelineSchedule.Grouped
    return description.stages * (2 if both_ways else 1)


def required_minimum(description: PipelineDescription) -> int:
    """Returns the least number of mini-batches."""
    overlap = description.io_overlap and description.schedule is PipelineSchedule.Grouped
    least = description.stages if description.any_count else required_multiple(description)
    return least + (_IO_OVERLAP if overlap else 0)


def fewest(description: PipelineDescription) -> int:
    """Returns the least count of mini-batches that the schedule can run."""
    multiple = required_multiple(description)
    return -(-required_minimum(description) // multiple) * multiple


def _check_count(description: PipelineDescription) -> None:
    multiple, minimum = required_multiple(description), required_minimum(description)
    if description.count % multiple == 0 and description.count >= minimum:
        return
    need = f"{multiple}" + (f" and at least {minimum}" if minimum > multiple else "")
    purpose = "trains" if description.training else "runs inference"
    overlap = " and overlaps I/O with I/O tiles" if minimum > multiple else ""
    good = -(-max(description.count, minimum) // multiple) * multiple
    # TensorFlow 1 programs look for the first sentence, TensorFlow 2 programs for the second.
    raise errors.failed_precondition(
        f"The pipeline depth of the pipeline must be a multiple of {need}, but it is "
        f"{description.count}. The number of iterations of the pipeline must be a multiple of "
        f"{need}, as it {purpose} with {description.stages} stages in the "
        f"{description.schedule.name} schedule{overlap}. Set gradient_accumulation_count to "
        f"{good}, say, or choose another pipeline_schedule.",
    )


def _check_recomputation(description: PipelineDescription) -> None:
    mode = description.resolved_recomputation
    if mode is None or mode is not _REFUSED.get(description.schedule):
        return
    raise errors.unimplemented(
        f"The recomputation mode {mode.name} is not supported by the pipeline schedule "
        f"{description.schedule.name}. Set recomputation_mode to RecomputationMode.Auto, or choose "
        "another pipeline_schedule.",
    )
