"""The best split of a training program into pipeline stages, or the best that fits in memory.

Layers stay in order and whole. Of the ways to make N stages of them, those come first in which no
stage has more memory than an IPU, then those whose schedule is shortest, then those that copy least
between IPUs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.structure import BACKWARD, FORWARD, Structure, structure
from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.tuning.edits import restage, workload_edits
from tensorflow_ipu.tuning.stages.stage_cut import LayerTable, Stage

# --- The best split of a training program into pipeline stages ---

# Default of mini-batches of an update, as a multiple of the ones that fill the pipeline: the bubble
# is small.
_ROUNDS = 4


@dataclasses.dataclass(frozen=True)
class Split:
    """A cut into stages.

    Attributes:
        stages: The stages.
        ends: The end of each stage: one past the index of its last layer.
        schedule: Name of the schedule.
        count: Mini-batches for one update.
        workload: The program with these stages.
        settings: Chip, replicas and options.
        capacity: Bytes of one IPU.
    """

    stages: tuple[Stage, ...]
    ends: tuple[int, ...]
    schedule: str
    count: int
    workload: Workload
    settings: Settings
    capacity: int

    @functools.cached_property
    def plan(self) -> Plan:
        """Memory and time with these stages."""
        return planning.plan(self.workload, self.settings)

    @property
    def bubble_share(self) -> float:
        """Idle share of the IPUs' time in the plan, 0 to 1."""
        return self.plan.timeline.bubble_share or 0.0

    @property
    def label(self) -> Label:
        """Label of the cycles."""
        return self.plan.timeline.label

    @property
    def balance(self) -> float:
        """Mean cycles of a stage divided by the slowest stage's, 1 if all are equal."""
        cycles = [stage.cycles for stage in self.stages]
        return sum(cycles) / len(cycles) / max(cycles) if max(cycles) else 1.0

    @property
    def fits(self) -> bool:
        """Whether no stage has more bytes than an IPU. The plan of `workload` is more precise."""
        return all(stage.memory <= self.capacity for stage in self.stages)


def split(
    workload: Workload,
    settings: Settings,
    stages: int,
    schedule: str | None = None,
    count: int | None = None,
) -> Split:
    """Cuts a program into stages.

    Args:
        workload: the program, pipelined or not.
        settings: chip, replicas and options.
        stages: number of stages, each on an IPU of its own.
        schedule: `Grouped`, `Interleaved` or `Sequential`, in any case; None for the program's,
            else `Grouped`.
        count: mini-batches for one update; None for the program's, rounded up to the schedule's
            multiple, or a count with a small bubble.

    Returns:
        The best cut. If the program had no pipeline, its optimizer state goes to streaming memory,
        as pipelines do by default.

    Raises:
        ValueError: there are fewer layers than stages, no such schedule, or the schedule cannot
            have that count.
    """
    return Splitter(workload, settings, structure(workload)).split(stages, schedule, count)


class Splitter:
    """Cutter of one program into any number of stages.

    Args:
        workload: the program, pipelined or not.
        settings: chip, replicas and options.
        found: section and layer of its ops.
    """

    def __init__(self, workload: Workload, settings: Settings, found: Structure) -> None:
        self._original, self._settings, self._found = workload, settings, found
        self._capacity = settings.compute_tiles * settings.chip.memory_per_tile

    @property
    def layers(self) -> int:
        """Number of layers, and so the most stages that there can be."""
        return len(self._found.layers)

    def split(self, stages: int, schedule: str | None = None, count: int | None = None) -> Split:
        """Cuts the program; see the function `split`."""
        description = self.describe(stages, schedule, count)
        return self._made(self._table.cut(description, self._capacity), description)

    def count(self, stages: int, schedule: str | None = None) -> int:
        """Returns the default number of mini-batches of an update.

        Args:
            stages: number of stages.
            schedule: as for `split`.
        """
        return self.describe(stages, schedule, None).count

    def parts(self, stages: int) -> tuple[Stage, ...]:
        """Returns the stages of a cut, without making the program with them.

        Args:
            stages: number of stages.
        """
        description = self.describe(stages, None, None)
        return self._table.stages(self._table.cut(description, self._capacity))

    def at(
        self, ends: Sequence[int], schedule: str | None = None, count: int | None = None
    ) -> Split:
        """Returns a cut that is given.

        Args:
            ends: the end of each stage: one past the index of its last layer, the last one the
                number of layers.
            schedule: as for `split`.
            count: as for `split`.

        Raises:
            ValueError: a stage has no layers, a layer has no stage, or as for `split`.
        """
        number = len(self._found.layers)
        if not ends or list(ends) != sorted({*ends}) or ends[0] < 1 or ends[-1] != number:
            raise ValueError(
                f"Expected the ends of stages in order, each with a layer, up to the {number} "
                f"layers that there are; received {list(ends)}."
            )
        return self._made(ends, self.describe(len(ends), schedule, count))

    def describe(self, stages: int, schedule: str | None, count: int | None) -> PipelineDescription:
        """Returns the pipeline that a cut makes; see `split`.

        Args:
            stages: number of stages.
            schedule: as for `split`.
            count: as for `split`.

        Raises:
            ValueError: there are fewer layers than stages, no such schedule, or the schedule cannot
                have that count.
        """
        _check_stages(self._found, stages)
        return _description(self._workload, self._found, stages, schedule, count)

    def _made(self, ends: Sequence[int], description: PipelineDescription) -> Split:
        stages = len(ends)
        stage_of_layer = np.repeat(np.arange(stages), np.diff([0, *ends])).tolist()
        return Split(
            self._table.stages(ends),
            tuple(ends),
            description.schedule.name,
            description.count,
            restage.restaged(self._workload, self._found, stage_of_layer, description),
            self._settings,
            self._capacity,
        )

    @functools.cached_property
    def _workload(self) -> Workload:
        """The program to cut; a new pipeline has its optimizer state in streaming memory."""
        if self._original.pipeline is not None:
            return self._original
        minimum = self._settings.minimum_remote_bytes
        return workload_edits.offloaded_from(self._original, self._found.state, minimum)

    @functools.cached_property
    def _table(self) -> LayerTable:
        """Cycles, memory and copies of the layers."""
        return LayerTable(self._workload, self._settings, self._found)


def schedule_named(name: str) -> PipelineSchedule:
    """Returns a schedule by its name in any case.

    Raises:
        ValueError: there is none.
    """
    for member in PipelineSchedule:
        if member.name.lower() == str(name).lower():
            return member
    names = ", ".join(member.name.lower() for member in PipelineSchedule)
    raise ValueError(f"Unknown pipeline schedule {name!r}: choose one of {names}.")


def required_multiple(schedule: PipelineSchedule, stages: int, training: bool) -> int:
    """Returns the divisor of a valid count: one round of mini-batches.

    Args:
        schedule: the schedule.
        stages: number of stages.
        training: whether there are backward passes.
    """
    if schedule is PipelineSchedule.Sequential:
        return 1
    return stages * (2 if training and schedule is PipelineSchedule.Grouped else 1)


def check_count(description: PipelineDescription) -> None:
    """Checks that a schedule supports its count.

    Raises:
        ValueError: it does not.
    """
    multiple = required_multiple(description.schedule, description.stages, description.training)
    if description.count % multiple or description.count < multiple:
        good = max(1, -(-description.count // multiple)) * multiple
        raise ValueError(
            f"The {description.schedule.name} schedule with {description.stages} stages needs a "
            f"gradient accumulation count that is a multiple of {multiple}; received "
            f"{description.count}. Use {good}, say."
        )


def _check_stages(found: Structure, stages: int) -> None:
    if stages < 1:
        raise ValueError(f"A pipeline has at least 1 stage; received {stages}.")
    if len(found.layers) < stages:
        raise ValueError(
            f"Expected at most as many stages as layers, received {stages} stages for "
            f"{len(found.layers)} layer(s): {', '.join(found.layers[:8]) or 'none'}. Ask for fewer "
            "stages, or make smaller layers, each in a name scope of its own."
        )


def _description(
    workload: Workload, found: Structure, stages: int, schedule: str | None, count: int | None
) -> PipelineDescription:
    """Returns the pipeline of a cut."""
    before = workload.pipeline
    chosen = PipelineSchedule.Grouped if before is None else before.schedule
    chosen = chosen if schedule is None else schedule_named(schedule)
    training = FORWARD in found.sections and BACKWARD in found.sections
    multiple = required_multiple(chosen, stages, training)
    if count is None:
        wanted = _ROUNDS * multiple if before is None else before.count
        if before is None and found.updates < found.mini_batches:
            wanted = found.mini_batches // found.updates
        count = max(1, -(-wanted // multiple)) * multiple
    mapping = tuple(range(stages))
    if before is not None:
        made = dataclasses.replace(
            before, device_mapping=mapping, count=count, schedule=chosen, training=training
        )
    else:
        repeat = max(1, round(found.mini_batches / max(1, count)))
        made = PipelineDescription(mapping, count, training, chosen, repeat)
    check_count(made)
    return made


# --- Text of the layers of stages, with the lines of the program that they come from ---

# Layers of a stage that are named; of more, the first and the last are.
_NAMED = 3


def layers(names: Sequence[str]) -> str:
    """Returns the names of some layers, or the ends of a long list of them."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names)} layers)"


def lines(
    word: str, stages: Sequence[Stage], sources: Mapping[str, str] | None = None
) -> list[str]:
    """Returns a line for each stage with its layers.

    Args:
        word: the word for a stage.
        stages: the stages.
        sources: the user's line of each layer, where it is known. The first layer's is shown.
    """
    known = sources or {}
    return [
        f"{word} {index}: {layers(stage.layers)}{_place(known.get(stage.layers[0], ''))}"
        for index, stage in enumerate(stages)
    ]


def _place(source: str) -> str:
    return f", from {source}" if source else ""


# --- A cut that fits, or changes that would make one fit ---

#: Cuts that are planned at most to find one that fits.
MOST_CUTS = 24

# More stages than IPUs of the machine are not asked for.
_MOST_STAGES = 16
_WITHOUT_STASHES = PipelineSchedule.Sequential.name


@dataclasses.dataclass(frozen=True)
class Way:
    """A change that needs less memory, with its planned effect.

    Attributes:
        name: Its name, such as `recomputation`.
        stages: Number of stages.
        worst_bytes: On the fullest tile.
        fits: Whether no tile exceeds its memory.
        cycles: Of one launch.
        items_per_second: Elements of data of all replicas per second.
    """

    name: str
    stages: int
    worst_bytes: int
    fits: bool
    cycles: float
    items_per_second: float


@dataclasses.dataclass(frozen=True)
class Fit:
    """The result of looking for a cut that fits.

    Attributes:
        split: The fastest cut tried that fits, else the cut with the fewest bytes on its fullest
            tile.
        tried: Number of cuts planned.
        ways: Changes that save memory, if it does not fit.
    """

    split: Split
    tried: int
    ways: tuple[Way, ...] = ()


def fitting(
    splitter: Splitter, stages: int, schedule: str | None = None, count: int | None = None
) -> Fit:
    """Searches for a cut that fits, from the fastest one on.

    Layers are moved out of the stage with the fullest tile, to the stage before or after it, as
    long as the fullest tile has less then. If no such cut fits, ways to need less memory are
    planned: recomputation, stashes in streaming memory, both, the schedule without stashes, and
    twice as many stages, up to a number that fits.

    Args:
        splitter: cuts the program.
        stages: number of stages, each on an IPU of its own.
        schedule: as for `stage_split.split`.
        count: as for `stage_split.split`.

    Raises:
        ValueError: as for `stage_split.split`.
    """
    best, tried = splitter.split(stages, schedule, count), 1
    while not best.plan.fits and tried < MOST_CUTS:
        moved = [splitter.at(ends, schedule, count) for ends in _relieved(best)]
        tried += len(moved)
        better = [cut for cut in moved if _worst(cut.plan) < _worst(best.plan)]
        if not better:
            break
        # Of cuts that fit the fastest one; else the one that is nearest to it.
        fit = [cut for cut in better if cut.plan.fits]
        best = min(fit, key=_cycles) if fit else min(better, key=lambda cut: _worst(cut.plan))
    ways = () if best.plan.fits else tuple(_ways(splitter, best, schedule))
    return Fit(best, tried, ways)


def _relieved(split: Split) -> Iterator[Sequence[int]]:
    """Yields the cuts with one layer less in the stage with the fullest tile."""
    full, ends = split.plan.fullest.ipu, list(split.ends)
    begin = ends[full - 1] if full else 0
    if ends[full] - begin < 2:
        return
    if full:
        yield [*ends[: full - 1], begin + 1, *ends[full:]]
    if full < len(ends) - 1:
        yield [*ends[:full], ends[full] - 1, *ends[full + 1 :]]


def _ways(splitter: Splitter, split: Split, schedule: str | None) -> Iterator[Way]:
    """Yields other changes that need less memory."""
    settings = split.settings
    options = {
        "recomputation": ("recompute",),
        "stashes in streaming memory": ("offload_activations",),
        "both": ("recompute", "offload_activations"),
    }
    for name, changed in options.items():
        if not all(getattr(settings, option) for option in changed):
            target = settings.replace(**dict.fromkeys(changed, True))
            yield _way(name, split, planning.plan(split.workload, target))
    if split.schedule != _WITHOUT_STASHES:
        slower = splitter.at(split.ends, _WITHOUT_STASHES, split.count)
        yield _way(f"{_WITHOUT_STASHES} schedule", slower, slower.plan)
    stages = 2 * len(split.stages)
    while stages <= min(_MOST_STAGES, splitter.layers):
        more = splitter.split(stages, schedule)
        yield _way(f"{stages} stages", more, more.plan)
        if more.plan.fits:
            return
        stages *= 2


def _way(name: str, split: Split, plan: Plan) -> Way:
    return Way(
        name,
        len(split.stages),
        plan.fullest.worst_bytes,
        plan.fits,
        plan.timeline.cycles,
        throughput.items_per_second(plan),
    )


def _worst(plan: Plan) -> int:
    return plan.fullest.worst_bytes


def _cycles(split: Split) -> float:
    return split.plan.timeline.cycles
