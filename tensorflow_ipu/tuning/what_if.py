"""`what_if`: plans a program with other settings, without running it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.configs import chips, enums
from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule, RecomputationMode
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.tuning.edits import workload_edits
from tensorflow_ipu.tuning.edits.batch import with_batch
from tensorflow_ipu.tuning.stages import stage_split
from tensorflow_ipu.util.text import aligned, exact_bytes, fitted

# --- Variations that `what_if` knows, by name: legal values and effect ---

#: The changes, with the meanings of their values.
NAMES: Mapping[str, str] = {
    "chip": "name of a chip, such as bow",
    "tiles": "number of tiles of an IPU",
    "replicas": "copies of the program; their gradients are summed before each update",
    "instances": "processes that have the replicas, as many each; each has as many as now without "
    "a number of replicas",
    "batch": "elements of a mini-batch of one replica",
    "stages": "number of pipeline stages",
    "schedule": "pipeline schedule: grouped, interleaved or sequential",
    "count": "mini-batches for one update (gradient accumulation)",
    "recompute": "whether activations may be computed again",
    "io_tiles": "number of I/O tiles of an IPU",
    "proportion": "availableMemoryProportion of convolutions, products and slices",
    "partials": "type of sums of float16 products: float16 or float32",
}

_POSITIVE = ("tiles", "replicas", "instances", "batch", "stages", "count")
_PARTIALS = {**enums.PARTIALS_OF_OPTION, "float16": "float16", "float32": "float32"}


def checked(changes: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Checks changes on their own.

    Args:
        changes: values by name.

    Returns:
        The changes, with values in their usual form.

    Raises:
        ValueError: there is no such change, it has no values, or a value is never possible.
    """
    for name, values in changes.items():
        if name not in NAMES:
            raise ValueError(f"Unknown change {name!r}: choose from {', '.join(NAMES)}.")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"Expected a list of values for {name}, received {values!r}.")
    return {name: [_checked(name, value) for value in values] for name, values in changes.items()}


def same_program(changes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns a key that is the same for all combinations of changes that make the same program.

    Args:
        changes: a value for each, by name, in the form that `checked` returns.
    """
    if "stages" in changes:  # cuts depend on the layers' cycles with the settings
        return tuple(changes.values())
    values = tuple(changes.get(name) for name in ("batch", "schedule", "count", "recompute"))
    return *values, changes.get("replicas", 1) > 1, changes.get("instances", 1) > 1


def changed_program(
    workload: Workload, settings: Settings, target: Settings, changes: Mapping[str, Any]
) -> Workload:
    """Applies the changes that concern the program.

    Args:
        workload: the program.
        settings: chip, replicas and options.
        target: the settings with all changes, as `changed_settings` returns them.
        changes: a value for each, by name, in the form that `checked` returns.

    Raises:
        ValueError: the program does not allow this combination.
    """
    if "batch" in changes:
        workload = with_batch(workload, changes["batch"])
    if "stages" in changes:
        split = stage_split.split(
            workload, target, changes["stages"], changes.get("schedule"), changes.get("count")
        )
        workload = split.workload
    elif "schedule" in changes or "count" in changes:
        workload = _rescheduled(workload, target, changes)
    if "recompute" in changes:
        workload = _recomputed(workload, changes["recompute"])
    if settings.replicas == 1 < target.replicas:
        workload = workload_edits.with_replica_sums(workload)
    return workload


def _checked(name: str, value: Any) -> Any:
    """Returns a value in its usual form."""
    if name in _POSITIVE or name == "io_tiles":
        least = 0 if name == "io_tiles" else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is a whole number from {least}; received {value!r}.")
        return value
    if name == "chip":
        return chips.get(value).name
    if name == "schedule":
        return stage_split.schedule_named(value).name
    if name == "recompute":
        if not isinstance(value, bool):
            raise ValueError(f"recompute is True or False; received {value!r}.")
        return value
    if name == "proportion":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise ValueError(f"proportion is a number from 0 to 1; received {value!r}.")
        return float(value)
    if value not in _PARTIALS:
        raise ValueError(f"partials is float16 or float32; received {value!r}.")
    return _PARTIALS[value]


def changed_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Applies the changes that concern the settings.

    Args:
        settings: chip, replicas and options.
        changes: a value for each, by name, in the form that `checked` returns.

    Raises:
        ValueError: the chip does not allow this combination.
    """
    chip = chips.get(changes["chip"]) if "chip" in changes else settings.chip
    if "tiles" in changes:
        chip = chips.get(chip.name).with_tiles(changes["tiles"])
    made: dict[str, Any] = {"chip": chip}
    if "instances" in changes:
        made["replicas"] = settings.local_replicas * changes["instances"]
    for name in ("replicas", "instances", "io_tiles", "recompute"):
        if name in changes:
            made[name] = changes[name]
    if "proportion" in changes:
        kinds = ("convolution", "matmul", "slice")
        made.update({f"{kind}_proportion": changes["proportion"] for kind in kinds})
    if "partials" in changes:
        made.update({f"{k}_partials": changes["partials"] for k in ("convolution", "matmul")})
    target = settings.replace(**made)
    if target.replicas % target.instances:
        raise ValueError(
            f"{target.replicas} replicas cannot be divided evenly among {target.instances} "
            f"instances. Have a multiple of {target.instances} replicas."
        )
    if target.compute_tiles < 1:
        raise ValueError(
            f"Of {target.chip.tiles} tiles {target.io_tiles} are I/O tiles: none is left to "
            "compute. Have fewer I/O tiles."
        )
    return target


def _rescheduled(workload: Workload, target: Settings, changes: Mapping[str, Any]) -> Workload:
    """Returns a pipeline with another schedule or count, or any program with another count."""
    before = workload.pipeline
    if before is None and "schedule" in changes:
        raise ValueError(
            f"{workload.name} has no pipeline, so it has no schedule: say how many stages it is to "
            "have."
        )
    if before is None:
        found, least = structure.structure(workload), target.minimum_remote_bytes
        return workload_edits.with_accumulation_count(workload, found, changes["count"], least)
    schedule = stage_split.schedule_named(changes.get("schedule", before.schedule.name))
    after = dataclasses.replace(before, schedule=schedule, count=changes.get("count", before.count))
    stage_split.check_count(after)
    _check_shared(after)
    return _counted(dataclasses.replace(workload, pipeline=after), before, after)


def _check_shared(description: PipelineDescription) -> None:
    """Raises if an Interleaved schedule trains with several stages on an IPU."""
    stages = sum(map(len, description.ipus_of_stages))
    interleaved = description.schedule is PipelineSchedule.Interleaved
    if interleaved and description.training and stages > len(description.ipus):
        raise ValueError(
            f"The Interleaved schedule needs an IPU for each stage, but {stages} stages are on "
            f"{len(description.ipus)} IPUs. Use Grouped or Sequential."
        )


def _counted(
    workload: Workload, before: PipelineDescription, after: PipelineDescription
) -> Workload:
    """Returns ops and copies of mini-batches with one run for each mini-batch."""
    if before.count == after.count or not before.count:
        return workload

    def scaled(runs: int) -> int:
        return max(1, runs * after.count // before.count)

    return dataclasses.replace(
        workload,
        ops=tuple(
            op
            if op.stage is None or op.phase == "update"
            else dataclasses.replace(op, runs=scaled(op.runs))
            for op in workload.ops
        ),
        copies=tuple(
            copy if copy.stage is None else copy._replace(runs=scaled(copy.runs))
            for copy in workload.copies
        ),
    )


def _recomputed(workload: Workload, recompute: bool) -> Workload:
    """Returns a pipeline with or without recomputation; other programs follow the settings."""
    pipeline = workload.pipeline
    if pipeline is None or not pipeline.training:
        return workload
    mode = (pipeline.recomputation or RecomputationMode.Auto) if recompute else None
    return dataclasses.replace(workload, pipeline=dataclasses.replace(pipeline, recomputation=mode))


# --- `what_if`: plans a program with other settings, without running it ---

#: Most combinations of one call. Each is a plan, which takes up to seconds for a large program.
MOST = 256


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Figures for one combination of changes. Numbers are None where it is not possible.

    Attributes:
        changes: The changes by name.
        worst: Bytes on the fullest tile.
        capacity: Bytes that a tile can hold.
        fits: Whether no tile exceeds its memory.
        cycles: Of one launch.
        seconds: Of one launch.
        items_per_second: Elements of data of all replicas per second.
        range_per_second: Range of these in which eight of ten measured programs lie.
        ipus: IPUs of all replicas, rounded up to a device's powers of two.
        bubble_share: Idle share of a pipeline's IPU time, 0 to 1; None without a pipeline.
        label: Label of the numbers.
        error: Why the combination is not possible; empty if it is.
    """

    changes: Mapping[str, Any]
    worst: int | None = None
    capacity: int | None = None
    fits: bool | None = None
    cycles: float | None = None
    seconds: float | None = None
    items_per_second: float | None = None
    range_per_second: tuple[float, float] | None = None
    ipus: int | None = None
    bubble_share: float | None = None
    label: Label = Label.MODELLED
    error: str = ""


def outcomes(
    workload: Workload, settings: Settings, changes: Mapping[str, Sequence[Any]]
) -> tuple[Outcome, ...]:
    """Plans a program with every combination of some changes.

    Args:
        workload: the program.
        settings: the present chip, replicas and options.
        changes: values to try, by the name of a change, one of `variations.NAMES`.

    Returns:
        An outcome for each combination, the last change varying fastest.

    Raises:
        ValueError: there is no such change, a change has no values or one that is never possible,
            or there are more than `MOST` combinations.
    """
    legal = checked(changes)
    total = 1
    for values in legal.values():
        total *= len(values)
    if total > MOST:
        sizes = " x ".join(f"{len(values)} {name}" for name, values in legal.items())
        raise ValueError(
            f"Expected at most {MOST} combinations, received {total}: {sizes}. Ask for fewer."
        )
    combinations = [dict(zip(legal, values)) for values in itertools.product(*legal.values())]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, combination in enumerate(combinations):
        groups.setdefault(same_program(combination), []).append(index)
    found: dict[int, Outcome] = {}
    for indices in groups.values():
        members = [combinations[index] for index in indices]
        found.update(zip(indices, _of_one_program(workload, settings, members)))
    return tuple(found[index] for index in range(total))


def to_dicts(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Returns outcomes as plain data for JSON.

    Args:
        found: the outcomes.
    """
    return [
        {
            **{field.name: getattr(outcome, field.name) for field in dataclasses.fields(Outcome)},
            "changes": dict(outcome.changes),
            "label": outcome.label.value,
        }
        for outcome in found
    ]


def to_text(found: Sequence[Outcome]) -> str:
    """Returns outcomes as a table with a line for each, reasons of impossible ones below it.

    Args:
        found: the outcomes of one call.
    """
    if not found:
        return ""
    names = list(found[0].changes)
    figures = ["IPUs", "worst tile", "fits", "cycles", "ms", "items/s", "range", "bubble", "label"]
    rows = [[*names, *figures]]
    notes: list[str] = []
    for outcome in found:
        cells = [_value(outcome.changes[name]) for name in names]
        if outcome.error:
            if outcome.error not in notes:
                notes.append(outcome.error)
            why = f"not possible [{notes.index(outcome.error) + 1}]"
            rows.append([*cells, "", why, *[""] * (len(figures) - 2)])
        else:
            rows.append([*cells, *_figures(outcome)])
    right = [len(names) + place for place in (0, 1, 3, 4, 5, 6, 7)]
    lines = aligned(rows, right, spare=("label", "bubble", "range", "ms"))
    return "\n".join([*lines, *(fitted(f"[{i}] {note}") for i, note in enumerate(notes, 1))])


def _of_one_program(
    workload: Workload, settings: Settings, combinations: Sequence[Mapping[str, Any]]
) -> Iterator[Outcome]:
    """Plans combinations that make the same program."""
    planner = None
    for changes in combinations:
        try:
            target = changed_settings(settings, changes)
            if planner is None:
                changed = changed_program(workload, settings, target, changes)
                planner = Planner(changed)
            plan = planner.plan(target)
        except ValueError as error:
            yield Outcome(changes, error=str(error))
        else:
            yield _outcome(changes, plan)


def _outcome(changes: Mapping[str, Any], plan: Plan) -> Outcome:
    """Returns the figures of a possible combination."""
    return Outcome(
        changes,
        plan.fullest.worst_bytes,
        plan.fullest.capacity,
        plan.fits,
        plan.timeline.cycles,
        plan.timeline.seconds,
        throughput.items_per_second(plan),
        throughput.range_per_second(plan),
        throughput.reserved_ipus(plan.workload.ipus) * plan.settings.replicas,
        plan.timeline.bubble_share,
        worst([throughput.memory_label(plan), plan.timeline.label]),
    )


def _figures(outcome: Outcome) -> list[str]:
    bubble = "" if outcome.bubble_share is None else f"{100 * outcome.bubble_share:.1f} %"
    return [
        str(outcome.ipus),
        exact_bytes(outcome.worst or 0),
        "yes" if outcome.fits else "no",
        f"{outcome.cycles or 0:,.0f}",
        f"{1000 * (outcome.seconds or 0):.3f}",
        f"{outcome.items_per_second or 0:,.1f}",
        "{:,.0f} - {:,.0f}".format(*(outcome.range_per_second or (0, 0))),
        bubble,
        outcome.label.value,
    ]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
