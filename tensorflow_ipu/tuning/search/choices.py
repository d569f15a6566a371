"""`Choices`: the changes of a configuration, one value for each subject."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.structure import structure
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning.stages.stage_cut import Stage

# --- `Choices`: the changes of a configuration, one value for each subject ---

# Values of `Choices.optimizer_state`.
ON_CHIP, REMOTE, SPLIT = "on chip", "remote", "split"


@dataclasses.dataclass(frozen=True)
class Choices:
    """The changes of a program. A value of None leaves a subject unchanged.

    Attributes:
        precision: `float16` for float16 instead of all float32.
        partials: `float16` for sums of float16 products in float16.
        batch: Elements of a mini-batch.
        optimizer_state: `on chip`, `remote` (streaming memory), or `split`: a part of it in the
            streaming memory of each replica.
        weights: `split` for weights in streaming memory, a part for each replica.
        stages: Pipeline stages, each on an IPU.
        shards: IPUs that layers are put on without a pipeline.
        schedule: Name of the schedule of the pipeline.
        count: Factor of the mini-batches of an update (gradient accumulation).
        recompute: Whether activations are recomputed in the backward pass.
        activations: `remote` for the stashes of a pipeline in streaming memory, or `on chip`.
        matmul_proportion: `availableMemoryProportion` of matrix products.
        convolution_proportion: `availableMemoryProportion` of convolutions.
        slice_proportion: `availableMemoryProportion` of gathers and scatters.
        replicas: Copies of the program, at most; fewer where the IPUs do not suffice.
        mini_batches: Mini-batches of an update that follow from the other choices, so that an
            update keeps its elements of data; no subject of its own.
    """

    precision: str | None = None
    partials: str | None = None
    batch: int | None = None
    optimizer_state: str | None = None
    weights: str | None = None
    stages: int | None = None
    shards: int | None = None
    schedule: str | None = None
    count: float | None = None
    recompute: bool | None = None
    activations: str | None = None
    matmul_proportion: float | None = None
    convolution_proportion: float | None = None
    slice_proportion: float | None = None
    replicas: int | None = None
    mini_batches: int | None = None

    def made(self) -> tuple[str, ...]:
        """Returns the subjects that are changed."""
        return tuple(name for name, _ in self.items())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields subject and value of each change."""
        for name in SUBJECTS:
            value = getattr(self, name)
            if value is not None:
                yield name, value

    def with_choice(self, subject: str, value: Any) -> Choices:
        """Returns the choices with another value for one subject.

        Args:
            subject: the subject, the name of an attribute.
            value: its value; None removes the choice. Stages and shards exclude each other.
        """
        changed: dict[str, Any] = {subject: value, "mini_batches": None}
        if subject == "stages" and value is not None:
            changed["shards"] = None
        if subject == "shards" and value is not None:
            changed.update(dict.fromkeys(_OF_PIPELINES))
        return dataclasses.replace(self, **changed)

    def __repr__(self) -> str:
        """Shows the changes."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.items())
        return f"{type(self).__name__}({shown})"


#: The subjects of choices.
SUBJECTS = tuple(
    field.name for field in dataclasses.fields(Choices) if field.name != "mini_batches"
)


#: Names of the subjects for users.
SUBJECT_NAMES: Mapping[str, str] = {
    "precision": "float16",
    "partials": "sums of products in float16",
    "batch": "size of mini-batches",
    "optimizer_state": "place of the optimizer state",
    "weights": "place of the weights",
    "stages": "pipeline stages",
    "shards": "shards",
    "schedule": "schedule of the pipeline",
    "count": "gradient accumulation",
    "recompute": "recomputation",
    "activations": "place of the activations",
    "matmul_proportion": "memory for temporaries of matrix products",
    "convolution_proportion": "memory for temporaries of convolutions",
    "slice_proportion": "memory for temporaries of gathers and scatters",
    "replicas": "replicas",
}


_OF_PIPELINES = ("stages", "schedule", "weights", "activations")


# --- `Trial`: a configuration that was planned ---


@dataclasses.dataclass(frozen=True)
class Trial:
    """A configuration and its plan.

    Attributes:
        choices: The changes.
        plan: Memory and time with the changes.
        parts: The layers of each stage or shard; empty where the program keeps its own.
    """

    choices: Choices
    plan: Plan = dataclasses.field(repr=False)
    parts: tuple[Stage, ...] = dataclasses.field(default=(), repr=False)

    @functools.cached_property
    def worst(self) -> int:
        """Bytes on the fullest tile."""
        return self.plan.fullest.worst_bytes

    @property
    def fits(self) -> bool:
        """Whether no tile exceeds its memory."""
        return self.worst <= self.plan.fullest.capacity

    @functools.cached_property
    def speed(self) -> float:
        """Elements of data per second, of all replicas."""
        return throughput.items_per_second(self.plan)

    @property
    def ipus(self) -> int:
        """IPUs that all replicas occupy."""
        return throughput.reserved_ipus(self.plan.workload.ipus) * self.plan.settings.replicas

    @functools.cached_property
    def update_items(self) -> int:
        """Elements of data of all replicas that one weight update is made of."""
        workload = self.plan.workload
        updates = structure(workload).updates
        return throughput.items_per_launch(workload) * self.plan.settings.replicas // updates

    @property
    def memory_label(self) -> Label:
        """Label of the bytes."""
        return throughput.memory_label(self.plan)

    @property
    def time_label(self) -> Label:
        """Label of the speed: a changed program was not compiled."""
        changed = [Label.MODELLED] if self.choices.made() else []
        return worst([self.plan.timeline.label, *changed])
