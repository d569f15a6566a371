"""Search for a cut into stages that fits, or else for changes that would make one fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.schedule import PipelineSchedule
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning.stages.stage_split import Split, Splitter

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
