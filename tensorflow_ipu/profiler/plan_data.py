"""JSON data of a Plan, with long lists as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.partition import Partition
from tensorflow_ipu.planner.plan import (
    Category,
    IpuMemory,
    LiveBuffer,
    OpTime,
    Plan,
    Segment,
    Timeline,
    Transfer,
)
from tensorflow_ipu.schedule.timing import Timing

_PLAIN = {int, float, str, bool, type(None)}
_COST_FIELDS = tuple(
    "compute exchange sync temporary codelets vertex_state exchange_code label".split()
)


def memory_to_dict(memory: IpuMemory) -> dict[str, Any]:
    """Returns the memory of an IPU as data; totals are there for readers without this package.

    Args:
        memory: of one IPU.
    """
    return {
        "ipu": memory.ipu,
        "capacity": int(memory.capacity),
        "fits": bool(memory.fits),
        "worst_tile": memory.worst_tile,
        "worst_bytes": memory.worst_bytes,
        "total_bytes": memory.total,
        "always_live_bytes": memory.always_live,
        "categories": [
            {
                "name": category.name,
                "always_live": bool(category.always_live),
                "label": category.label.value,
                "total_bytes": category.total,
                "tiles": category.tiles.tolist(),
            }
            for category in memory.categories
        ],
        "peak": memory.peak.tolist(),
        "liveness": {
            "op": memory.live_ops.tolist(),
            "bytes": memory.live_bytes.tolist(),
            "worst_tile_bytes": memory.live_worst.tolist(),
        },
        "peak_op": None if memory.peak_op is None else int(memory.peak_op),
        "at_peak": columns(LiveBuffer._fields, memory.at_peak),
    }


def memory_from_dict(data: Mapping[str, Any]) -> IpuMemory:
    """Returns the memory of an IPU from its data.

    Args:
        data: the result of `memory_to_dict`.
    """
    liveness = data["liveness"]
    return IpuMemory(
        ipu=data["ipu"],
        capacity=data["capacity"],
        categories=tuple(
            Category(
                category["name"],
                category["always_live"],
                np.array(category["tiles"], np.int64),
                Label(category["label"]),
            )
            for category in data["categories"]
        ),
        peak=np.array(data["peak"], np.int64),
        live_ops=np.array(liveness["op"], np.int32),
        live_bytes=np.array(liveness["bytes"], np.int64),
        live_worst=np.array(liveness["worst_tile_bytes"], np.int64),
        peak_op=data["peak_op"],
        at_peak=tuple(LiveBuffer(*row) for row in rows(LiveBuffer._fields, data["at_peak"])),
    )


def timeline_to_dict(timeline: Timeline) -> dict[str, Any]:
    """Returns a timeline as data.

    Args:
        timeline: of one launch.
    """
    costs: dict[int, int] = {}
    listed: list[Cost] = []
    for time in timeline.ops:
        if id(time.cost) not in costs:  # equal ops share one Cost
            costs[id(time.cost)] = len(listed)
            listed.append(time.cost)
    return {
        "cycles": float(timeline.cycles),
        "clock": float(timeline.clock),
        "seconds": float(timeline.seconds),
        "by_kind": {kind: float(cycles) for kind, cycles in timeline.by_kind.items()},
        "label": timeline.label.value,
        "by_label": {label.value: float(c) for label, c in timeline.by_label.items()},
        "ops": {
            "op": [time.op for time in timeline.ops],
            "ipu": [time.ipu for time in timeline.ops],
            "runs": [time.runs for time in timeline.ops],
            "cost": [costs[id(time.cost)] for time in timeline.ops],
        },
        "costs": [_cost_to_dict(cost) for cost in listed],
        "segments": columns(Segment._fields, timeline.segments),
        "transfers": columns(Transfer._fields, timeline.transfers),
        "schedule": _schedule_to_dict(timeline.schedule),
    }


def _cost_to_dict(cost: Cost) -> dict[str, Any]:
    """Returns a cost as data; with a partition only if it has one, as in earlier releases."""
    data = {name: getattr(cost, name) for name in _COST_FIELDS}
    return data | ({"partition": cost.partition._asdict()} if cost.partition else {})


def _cost_from_dict(data: Mapping[str, Any]) -> Cost:
    """Returns a cost from its data."""
    partition = data.get("partition")
    if partition is not None:
        parts = tuple((name, count) for name, count in partition["parts"])
        partition = Partition(**{**partition, "parts": parts})
    fields = {name: data[name] for name in _COST_FIELDS}
    fields |= {"codelets": tuple(data["codelets"]), "label": Label(data["label"])}
    return Cost(**fields, partition=partition)


def timeline_from_dict(data: Mapping[str, Any]) -> Timeline:
    """Returns a timeline from its data.

    Args:
        data: the result of `timeline_to_dict`.
    """
    costs = [_cost_from_dict(cost) for cost in data["costs"]]
    ops = data["ops"]
    _check_indices("costs", ops["cost"], len(costs))
    segments = rows(Segment._fields, data["segments"])
    transfers = rows(Transfer._fields, data["transfers"])
    return Timeline(
        cycles=data["cycles"],
        clock=data["clock"],
        by_kind=dict(data["by_kind"]),
        ops=tuple(
            OpTime(op, ipu, costs[cost], runs)
            for op, ipu, cost, runs in rows(("op", "ipu", "cost", "runs"), ops)
        ),
        segments=tuple(Segment._make((*row[:-1], Label(row[-1]))) for row in segments),
        transfers=tuple(Transfer._make((*row[:-1], Label(row[-1]))) for row in transfers),
        schedule=_schedule_from_dict(data["schedule"]),
        label=Label(data["label"]),
        by_label={Label(label): cycles for label, cycles in data["by_label"].items()},
    )


def check(plan: Plan) -> None:
    """Checks the relations between the parts of a plan read from a file.

    Args:
        plan: the plan; each value on its own is right.

    Raises:
        ValueError: its parts contradict each other.
    """
    ops, ipus = len(plan.workload.ops), plan.workload.ipus
    if [memory.ipu for memory in plan.memory] != list(range(ipus)):
        raise ValueError(f"the memory of other IPUs than the {ipus} of the program")
    for memory in plan.memory:
        for category in memory.categories:
            _check_same("tiles", (category.tiles, memory.peak))
        _check_same("liveness", (memory.live_ops, memory.live_bytes, memory.live_worst))
        _check_indices("liveness", (memory.peak_op, *memory.live_ops.tolist()), ops)
        buffers = (live.buffer for live in memory.at_peak)
        _check_indices("at_peak", buffers, len(plan.workload.buffers))
    timeline = plan.timeline
    _check_indices("timeline.ops", (time.op for time in timeline.ops), ops)
    _check_indices("segments", (segment.op for segment in timeline.segments), ops)
    parts: tuple[Iterable[OpTime | Segment | Transfer], ...]
    parts = timeline.ops, timeline.segments, timeline.transfers
    for part in parts:
        _check_indices("IPUs of the timeline", (timed.ipu for timed in part), ipus)
    if timeline.schedule is not None:
        _check_same("schedule", (timeline.schedule.start, timeline.schedule.end))
        _check_same("IPUs of the schedule", (timeline.schedule.ipus, timeline.schedule.busy))


def _check_same(name: str, parts: Sequence[Sized]) -> None:
    """Raises unless parts have one length."""
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise ValueError(f"{name} are not of one length: {lengths}")


def _check_indices(name: str, indices: Iterable[int | None], count: int) -> None:
    """Raises unless each index is None or in range."""
    for index in indices:
        if index is not None and not 0 <= index < count:
            raise ValueError(f"{name}: position {index} of {count}")


def columns(names: Sequence[str], records: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Returns records as one list for each field.

    Args:
        names: of the fields.
        records: one value for each field.
    """
    values: list[list[Any]] = [list(column) for column in zip(*records)]
    values = values or [[] for _ in names]
    return {name: _plain(column) for name, column in zip(names, values)}


def rows(names: Sequence[str], data: Mapping[str, Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Returns records from their columns.

    Args:
        names: of the fields.
        data: the result of `columns`.

    Raises:
        ValueError: the columns are not of one length.
    """
    if len({len(data[name]) for name in names}) > 1:
        raise ValueError(f"columns {', '.join(names)} are not of one length")
    return list(zip(*(data[name] for name in names)))


def _plain(column: list[Any]) -> list[Any]:
    """Returns values for JSON: NumPy's numbers become Python's, labels their texts."""
    if set(map(type, column)) <= _PLAIN:
        return column
    return [
        value.item() if isinstance(value, np.generic) else getattr(value, "value", value)
        for value in column
    ]


def _schedule_to_dict(timing: Timing | None) -> dict[str, Any] | None:
    """Returns the times of a pipeline's schedule."""
    if timing is None:
        return None
    return {
        "start": timing.start.tolist(),
        "end": timing.end.tolist(),
        "total": float(timing.total),
        "ipus": [int(ipu) for ipu in timing.ipus],
        "busy": [float(cycles) for cycles in timing.busy],
        "bubble_share": float(timing.bubble_share),
    }


def _schedule_from_dict(data: Mapping[str, Any] | None) -> Timing | None:
    """Returns the times of a pipeline's schedule from their data."""
    if data is None:
        return None
    start, end = np.array(data["start"], np.float64), np.array(data["end"], np.float64)
    return Timing(start, end, data["total"], tuple(data["ipus"]), tuple(data["busy"]))
