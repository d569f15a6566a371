"""`ReportData`: a compiled program's Workload, Settings, Plan and launches, saved and loaded."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from tensorflow_ipu.configs.flags import Flags
from tensorflow_ipu.costs.cost import Cost, Partition
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import serialize
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
from tensorflow_ipu.planner.schedule.timing import Timing
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.profiler import breakdown, json_schema, schema
from tensorflow_ipu.profiler.insights import insights, remedies_of
from tensorflow_ipu.profiler.views import view
from tensorflow_ipu.profiler.views.operations import Operation
from tensorflow_ipu.profiler.views.trees import LayerNode, ProgramNode
from tensorflow_ipu.profiler.views.view import LiveTensor, View
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from typing_extensions import Self

    from tensorflow_ipu.compiler.executable import Executable


# --- Plans as JSON, with long lists as columns ---

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


# --- Reports ---

SCHEMA_VERSION = schema.VERSION
FilePath = Union[str, Path]


class Executions(NamedTuple):
    """Launches of a program: their number, host time, and the work shared in the last one.

    Args:
        launches: number of launches.
        host_seconds: the host's wall time in all launches; says nothing of a chip's speed.
        uniform_ops: ops that one replica computed for all; 0 if each computed everything.
        ops: all ops of the program that ran on several replicas.
        uniform_bytes: bytes of the variables of which there was one for all replicas.
        variable_bytes: bytes of all variables of a replica.
        copied_bytes: bytes that all replicas together hold of the other variables.
    """

    launches: int = 0
    host_seconds: float = 0.0
    uniform_ops: int = 0
    ops: int = 0
    uniform_bytes: int = 0
    variable_bytes: int = 0
    copied_bytes: int = 0

    @classmethod
    def of(cls, executable: Executable) -> Self:
        """Returns the executions of a program until now.

        Args:
            executable: the program.
        """
        return cls(executable.launches, executable.seconds, *executable.uniform)

    def since(self, before: Executions) -> Self:
        """Returns the executions without earlier ones.

        Args:
            before: the earlier executions.
        """
        launches = self.launches - before.launches
        if not launches:
            return type(self)()
        seconds = max(0.0, self.host_seconds - before.host_seconds)
        return self._replace(launches=launches, host_seconds=seconds)


@dataclasses.dataclass(frozen=True)
class ReportData:
    """A compiled program with its plan, options and launches: the input of all exporters.

    Attributes:
        plan: Its memory and time on the chip.
        options: The options it was compiled with: `config` of the IPU system, `engine`, `flags`.
        executions: Its launches so far.
        created: When the report was made: ISO date and time.
    """

    plan: Plan
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    executions: Executions = Executions()
    created: str = ""

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        options: Mapping[str, Any] | None = None,
        executions: Executions | None = None,
    ) -> Self:
        """Returns the report of a plan.

        Args:
            plan: memory and time of a program.
            options: its options, as data for JSON.
            executions: its launches so far.
        """
        now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        return cls(plan, dict(options or {}), executions or Executions(), now)

    @classmethod
    def from_executable(cls, executable: Executable) -> Self:
        """Returns the report of a compiled program.

        Args:
            executable: the program; it is planned now if it was not before.
        """
        executions = Executions.of(executable)
        return cls.from_plan(executable.plan, options_of(executable), executions)

    def with_executions(self, executions: Executions) -> Self:
        """Returns the report with other numbers of executions, and all cached tables.

        Args:
            executions: the program's launches by now.
        """
        renewed = dataclasses.replace(self, executions=executions)
        fields = {field.name for field in dataclasses.fields(self)}
        kept = {name: value for name, value in vars(self).items() if name not in fields}
        vars(renewed).update(kept)
        return renewed

    @property
    def workload(self) -> Workload:
        """The program as data."""
        return self.plan.workload

    @property
    def settings(self) -> Settings:
        """Chip, replicas and options of the plan."""
        return self.plan.settings

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.workload.name

    @functools.cached_property
    def insights(self) -> dict[str, Any]:
        """The most important facts: whether it fits, its fullest tile, largest tensors and more."""
        return insights(self.plan, remedies_of(self.plan))

    def layers(self) -> tuple[breakdown.LayerRow, ...]:
        """Returns cycles, bytes and work of each layer, in program order.

        Cycles are summed over the ops and transfers of `operations()`, on all IPUs of a replica.
        They add up to the cycles of a launch on one IPU, and to more on several, which work at the
        same time.
        """
        return self._layers

    def ops(self) -> tuple[Operation, ...]:
        """Returns the ops with a cost, the most expensive first."""
        return self._ops

    def operations(self) -> tuple[Operation, ...]:
        """Returns the ops and the transfers with a cost, the most expensive first."""
        return self.view.operations

    def layer_tree(self) -> tuple[LayerNode, ...]:
        """Returns the layers as nested name scopes; the first is the whole program."""
        return self.view.layers

    def program_tree(self) -> tuple[ProgramNode, ...]:
        """Returns the parts of a launch in order of execution; the first is the whole program."""
        return self.view.program

    def tensors_at(self, step: int, ipu: int = 0) -> tuple[LiveTensor, ...]:
        """Returns the tensors that are live on an IPU at a step, the largest first.

        Args:
            step: number of the step: `plan.memory[ipu].live_ops` has the op of each.
            ipu: IPU within the replica.

        Raises:
            IndexError: there is no such step or IPU.
        """
        return view.live_at_step(self.plan, self.view.details, step, ipu)

    def tensors_on(self, tile: int, step: int | None = None, ipu: int = 0) -> dict[str, int]:
        """Returns the bytes of each tensor on a tile at a step, the largest first.

        Args:
            tile: number of the tile.
            step: number of the step; that at which the fullest tile has most if left out.
            ipu: IPU within the replica.

        Raises:
            IndexError: there is no such tile, step or IPU.
        """
        return view.live_on_tile(self.plan, self.view.details, tile, step, ipu)

    @functools.cached_property
    def view(self) -> View:
        """The tables and trees of the report."""
        return View(self.plan)

    @functools.cached_property
    def _layers(self) -> tuple[breakdown.LayerRow, ...]:
        return breakdown.layer_rows(self.workload, self.operations())

    @functools.cached_property
    def _ops(self) -> tuple[Operation, ...]:
        return tuple(row for row in self.operations() if row.op is not None)

    @property
    def target(self) -> dict[str, Any]:
        """Name and figures of the chip, with the numbers of IPUs and replicas."""
        chip = self.settings.chip
        return {
            "chip": chip.name,
            "title": chip.title,
            "tiles_per_ipu": chip.tiles,
            "io_tiles_per_ipu": self.settings.io_tiles,
            "memory_per_tile": chip.memory_per_tile,
            "memory_per_ipu": chip.memory,
            "clock": chip.clock,
            "replicas": self.settings.replicas,
            "instances": self.settings.instances,
            "ipus_per_replica": self.workload.ipus,
            "ipus": self.settings.replicas * self.workload.ipus,
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as data for JSON, as `schema.SCHEMA` says."""
        plan = self.plan
        return {
            "format": schema.FORMAT,
            "schema_version": SCHEMA_VERSION,
            "created": self.created,
            "target": self.target,
            "program": {
                "name": self.name,
                "fingerprint": self.workload.fingerprint,
                "options": dict(self.options),
            },
            "executions": self.executions._asdict(),
            "insights": self.insights,
            "layers": [row._asdict() for row in self.layers()],
            "workload": serialize.workload_to_dict(self.workload),
            "settings": serialize.settings_to_dict(self.settings),
            "plan": {
                "memory": [memory_to_dict(memory) for memory in plan.memory],
                "timeline": timeline_to_dict(plan.timeline),
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Returns a report from its data.

        Args:
            data: the result of `to_dict`.

        Raises:
            ValueError: the data is no report, or of another schema version.
        """
        schema.check(data)
        try:
            workload = serialize.workload_from_dict(data["workload"])
            settings = serialize.settings_from_dict(data["settings"])
            serialize.check(workload, settings)
            plan = Plan(
                workload,
                settings,
                tuple(memory_from_dict(memory) for memory in data["plan"]["memory"]),
                timeline_from_dict(data["plan"]["timeline"]),
            )
            check(plan)
            rates = [data["insights"][f"{name}_per_second"] for name in ("items", "range")]
            if rates.count(None) == 1:
                raise ValueError("items_per_second and range_per_second: one of them is null")
        except (KeyError, TypeError, IndexError, ValueError) as error:
            text = str(error) if isinstance(error, ValueError) else repr(error)
            raise ValueError(f"Not a whole report: {text}. Make the report again.") from error
        known = data["executions"]
        executions = Executions(
            **{name: known[name] for name in Executions._fields if name in known}
        )
        report = cls(plan, data["program"]["options"], executions, data["created"])
        # Findings stay as they were when the report was made.
        vars(report)["insights"] = data["insights"]
        return report

    def save(self, path: FilePath) -> None:
        """Writes the report to a file as JSON.

        Args:
            path: the file.

        Raises:
            OSError: it cannot be written.
        """
        private_files.write_text(path, self.to_json())

    def to_json(self) -> str:
        """Returns the report as JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Returns the report in a file, or in the directory that reports were written to.

        Args:
            path: a file that `save` wrote, or the directory of a program's reports.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a report, or of another schema version.
        """
        file = Path(path)
        file = file / "report.json" if file.is_dir() else file
        data = json_schema.read(
            file,
            "a report of tensorflow_ipu",
            "Give the report.json or profile.pop of a report directory.",
        )
        try:
            return cls.from_dict(data)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error

    __repr__ = shows(
        lambda self: {
            "": self.name,
            "fits": self.plan.fits,
            "cycles": round(self.plan.timeline.cycles),
            "ipus": self.workload.ipus,
            "replicas": self.settings.replicas,
            "instances": self.settings.instances if self.settings.instances > 1 else None,
            "chip": self.settings.chip.name,
            "launches": self.executions.launches,
            "created": self.created or None,
        }
    )


def options_of(executable: Executable) -> dict[str, Any]:
    """Returns the options that a program was compiled with.

    Args:
        executable: the program.

    Returns:
        `config` (the options of the IPU system), `engine` (the engine options in force), `flags`
        (those that differ from their defaults), and `configured_at` (file and line of the program
        that configured the system, empty if that is not known).
    """
    attached = executable.system
    given, defaults = dataclasses.asdict(attached.flags), dataclasses.asdict(Flags())
    return {
        "config": attached.settings.to_dict(),
        "engine": attached.engine_options,
        "flags": {name: v for name, v in given.items() if v != defaults[name]},
        "configured_at": attached.configured_at,
    }
