"""`Choices`: the changes of a configuration, and `Space`: the values of each for a program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.resources import CONVOLUTION, SLICE, family
from tensorflow_ipu.planner.program.structure import BACKWARD, Structure, structure
from tensorflow_ipu.planner.schedule import PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.time.throughput import reserved_ipus
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.tuning.edits import workload_edits
from tensorflow_ipu.tuning.stages.stage_cut import Stage
from tensorflow_ipu.util import op_names

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


# --- The values of each choice ---

# Values of availableMemoryProportion that are tried.
_PROPORTIONS = (0.1, 0.3, 0.6, 0.9)

# Larger mini-batches that are tried, and more mini-batches for an update, as multiples.
_LARGER_BATCHES = (2, 4)
_MORE_MINI_BATCHES = (0.5, 2.0, 4.0)
_HALF = workload_edits.HALF
_PRODUCTS = ("MatMul", "Einsum", "LSTM", "Gru", "GRU")


class Space:
    """The configurations of a program on some IPUs.

    Args:
        workload: the program.
        settings: the present chip, replicas and options.
        structure: section and layer of its ops.
        ipus: number of IPUs for all replicas.
        subjects: subjects that may be changed.
        saving: whether only values count that may save memory: no larger batch, and so on.

    Attributes:
        ipus: Number of IPUs.
        omitted: Why a subject has no value to choose, by its name.
    """

    def __init__(
        self,
        workload: Workload,
        settings: Settings,
        structure: Structure,
        ipus: int,
        subjects: Collection[str] = SUBJECTS,
        saving: bool = False,
    ) -> None:
        self._workload, self._settings, self._found = workload, settings, structure
        self.ipus, self._saving = ipus, saving
        self.omitted: dict[str, str] = {}
        self._subjects = tuple(name for name in SUBJECTS if name in subjects)
        self._families = {family(op.type) for op in workload.ops if op.ipu is not None}
        # Without feeds and pipelines a launch is one mini-batch, after any change.
        self._is_fed = any(op.type == op_names.INFEED for op in workload.ops)
        self._trains = BACKWARD in structure.sections
        self._fixed = {name: self._values(name) for name in self._subjects}

    def neighbors(self, choices: Choices) -> Iterator[tuple[str, Choices]]:
        """Yields each subject and a configuration that differs in it only.

        Args:
            choices: a configuration.
        """
        for name in self._subjects:
            for value in self._fixed[name]:
                if value != getattr(choices, name) and self._makes_sense(choices, name, value):
                    yield name, choices.with_choice(name, value)

    @property
    def size(self) -> int:
        """Number of combinations of values, at most."""
        total = 1
        for values in self._fixed.values():
            total *= len(values) + 1
        return total

    def _makes_sense(self, choices: Choices, name: str, value: Any) -> bool:
        """Returns whether a value is a change, given the other choices."""
        piped = choices.stages is not None or (
            self._workload.pipeline is not None and choices.shards is None
        )
        new = self._workload.pipeline is None and not self._found.accumulated
        if name in ("schedule", "activations", "weights") and not piped:
            return False
        if name == "partials":
            return choices.precision == _HALF or self._has_half()
        if name == "optimizer_state" and value == SPLIT and self._replicas(choices) == 1:
            return False
        if name == "optimizer_state":
            # With new gradient accumulation, the optimizer state is in streaming memory by default.
            counts = (choices.stages, choices.count, choices.mini_batches)
            offloads = new and any(count is not None for count in counts)
            return value != REMOTE if offloads else value != self._state_now()
        if name == "weights" and self._replicas(choices) == 1:
            return False
        if name == "count":
            now = self._found.mini_batches // self._found.updates
            return piped or (choices.shards is None and self._is_fed and now * value >= 1)
        if name in ("stages", "shards") and value is not None:
            return reserved_ipus(value) <= self._each()
        return True

    def _each(self) -> int:
        """Returns the most IPUs of a replica: all of a process, if replicas may be fewer."""
        settings = self._settings
        return self.ipus // (
            settings.instances if "replicas" in self._subjects else settings.replicas
        )

    def _values(self, name: str) -> tuple[Any, ...]:
        """Returns the values of a subject; none with a reason in `omitted`."""
        values, reason = _VALUES[name](self)
        if not values:
            self.omitted[name] = reason
        return tuple(values)

    def _replicas(self, choices: Choices) -> int:
        return choices.replicas or self._settings.replicas

    def _has_half(self) -> bool:
        return any(buffer.dtype == _HALF for buffer in self._workload.buffers)

    def _state_now(self) -> str:
        """Returns the memory that the optimizer state is in."""
        state = [self._workload.variables[index] for index in self._found.state]
        if not any(variable.offloaded for variable in state):
            return ON_CHIP
        return SPLIT if any(variable.split > 1 for variable in state) else REMOTE

    def _precision(self) -> tuple[list[Any], str]:
        full = workload_edits.has_full(self._workload)
        return [_HALF] if full else [], "it has no float32 tensors"

    def _partials(self) -> tuple[list[Any], str]:
        now = self._settings.matmul_partials, self._settings.convolution_partials
        products = not self._families.isdisjoint((CONVOLUTION,)) or self._has_products()
        if not products:
            return [], "it has no products"
        return ([] if now == (_HALF, _HALF) else [_HALF]), "sums are in float16 already"

    def _batch(self) -> tuple[list[Any], str]:
        now = self._workload.batch
        if now is None:
            return [], "its batch size is not known: no feed or input has a first dimension"
        values, size = [], now
        while size > 1 and size % 2 == 0:
            size //= 2
            values.append(size)
        larger = [] if self._saving else [times * now for times in _LARGER_BATCHES]
        return values + larger, f"a batch of {now} cannot be halved"

    def _state(self) -> tuple[list[Any], str]:
        if not self._trains or not self._found.state:
            return [], "it has no optimizer state"
        values = [ON_CHIP, REMOTE]
        several = self._settings.replicas > 1 or "replicas" in self._subjects and self.ipus > 1
        return [*values, SPLIT] if several else values, ""

    def _weights(self) -> tuple[list[Any], str]:
        if not self._trains or not self._found.trained:
            return [], "it trains no weights"
        several = self._settings.replicas > 1 or "replicas" in self._subjects and self.ipus > 1
        return [SPLIT] if several else [], "there is one replica"

    def _parts(self) -> list[int]:
        """Returns numbers of IPUs to divide a replica among: powers of two, or all layers."""
        layers = len(self._found.layers)
        found: list[int] = []
        number = 2
        while (
            reserved_ipus(min(number, layers)) <= self._each() and min(number, layers) not in found
        ):
            found.append(min(number, layers))
            number *= 2
        return [parts for parts in found if parts > 1]

    def _stages(self) -> tuple[list[Any], str]:
        layers = len(self._found.layers)
        one = [1] if self._workload.pipeline is not None else []
        return [*one, *self._parts()], f"it has {layers} layer(s) on {self.ipus} IPU(s)"

    def _shards(self) -> tuple[list[Any], str]:
        if self._workload.pipeline is not None:
            return [], "it has a pipeline"
        return list(self._parts()), f"it has {len(self._found.layers)} layer(s)"

    def _schedule(self) -> tuple[list[Any], str]:
        pipeline = self._workload.pipeline
        if pipeline is None and not self._parts():
            return [], "it has no pipeline"
        now = PipelineSchedule.Grouped if pipeline is None else pipeline.schedule
        return [one.name for one in PipelineSchedule if one is not now], ""

    def _count(self) -> tuple[list[Any], str]:
        if not self._trains:
            return [], "it does not train"
        if self._workload.pipeline is None and not self._is_fed and not self._parts():
            return [], "it has no feed, so a launch is one mini-batch"
        return list(_MORE_MINI_BATCHES), ""

    def _recompute(self) -> tuple[list[Any], str]:
        if not self._trains:
            return [], "it has no backward pass"
        pipeline = self._workload.pipeline
        now: bool = self._settings.recompute and (
            pipeline is None or pipeline.recomputation is not None
        )
        if now and self._saving:
            return [], "it recomputes activations already"
        return [not now], ""

    def _activations(self) -> tuple[list[Any], str]:
        if not self._trains or (self._workload.pipeline is None and not self._parts()):
            return [], "it has no pipeline that trains"
        return [ON_CHIP if self._settings.offload_activations else REMOTE], ""

    def _has_products(self) -> bool:
        return any(part in op.type for op in self._workload.ops for part in _PRODUCTS)

    def _proportions(self, now: float, present: bool, what: str) -> tuple[list[Any], str]:
        if not present:
            return [], f"it has no {what}"
        wanted = [p for p in _PROPORTIONS if p < now or (p > now and not self._saving)]
        return list(wanted), f"the proportion is {now:g} already"

    def _matmuls(self) -> tuple[list[Any], str]:
        now = self._settings.matmul_proportion
        return self._proportions(now, self._has_products(), "matrix products")

    def _convolutions(self) -> tuple[list[Any], str]:
        now = self._settings.convolution_proportion
        return self._proportions(now, CONVOLUTION in self._families, "convolutions")

    def _slices(self) -> tuple[list[Any], str]:
        now = self._settings.slice_proportion
        return self._proportions(now, SLICE in self._families, "gathers or scatters")

    def _copies(self) -> tuple[list[Any], str]:
        instances = self._settings.instances
        most, values, number = self.ipus, [], instances
        while number <= most:
            values.append(number)
            number *= 2
        now = self._settings.replicas
        return [n for n in values if n != now], "there is one IPU"


_VALUES: dict[str, Callable[[Space], tuple[list[Any], str]]] = {
    "precision": Space._precision,
    "partials": Space._partials,
    "batch": Space._batch,
    "optimizer_state": Space._state,
    "weights": Space._weights,
    "stages": Space._stages,
    "shards": Space._shards,
    "schedule": Space._schedule,
    "count": Space._count,
    "recompute": Space._recompute,
    "activations": Space._activations,
    "matmul_proportion": Space._matmuls,
    "convolution_proportion": Space._convolutions,
    "slice_proportion": Space._slices,
    "replicas": Space._copies,
}
