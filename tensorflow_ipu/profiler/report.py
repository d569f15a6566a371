"""`Report`: a compiled program's Workload, Settings, Plan and launches, shown and saved."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from tensorflow_ipu.planner import serialize
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.profiler import breakdown, json_files, plan_data, schema
from tensorflow_ipu.profiler.insights import insights, remedies_of
from tensorflow_ipu.profiler.views import live_tensors
from tensorflow_ipu.profiler.views.layer_tree import LayerNode
from tensorflow_ipu.profiler.views.live_tensors import LiveTensor
from tensorflow_ipu.profiler.views.operation import Operation
from tensorflow_ipu.profiler.views.program_tree import ProgramNode
from tensorflow_ipu.profiler.views.view import View
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from typing_extensions import Self

    from tensorflow_ipu.compiler.executable import Executable

SCHEMA_VERSION = schema.VERSION
FilePath = Union[str, Path]


class Executions(NamedTuple):
    """Number of a program's launches, and their host time.

    Args:
        launches: number of launches.
        host_seconds: the host's wall time in all launches; says nothing of a chip's speed.
    """

    launches: int = 0
    host_seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class Report:
    """A compiled program with its plan, options and launches.

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
        from tensorflow_ipu.profiler.program_options import options_of

        executions = Executions(executable.launches, executable.seconds)
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
        return live_tensors.at_step(self.plan, self.view.details, step, ipu)

    def tensors_on(self, tile: int, step: int | None = None, ipu: int = 0) -> dict[str, int]:
        """Returns the bytes of each tensor on a tile at a step, the largest first.

        Args:
            tile: number of the tile.
            step: number of the step; that at which the fullest tile has most if left out.
            ipu: IPU within the replica.

        Raises:
            IndexError: there is no such tile, step or IPU.
        """
        return live_tensors.on_tile(self.plan, self.view.details, tile, step, ipu)

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
                "memory": [plan_data.memory_to_dict(memory) for memory in plan.memory],
                "timeline": plan_data.timeline_to_dict(plan.timeline),
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
                tuple(plan_data.memory_from_dict(memory) for memory in data["plan"]["memory"]),
                plan_data.timeline_from_dict(data["plan"]["timeline"]),
            )
            plan_data.check(plan)
            rates = [data["insights"][f"{name}_per_second"] for name in ("items", "range")]
            if rates.count(None) == 1:
                raise ValueError("items_per_second and range_per_second: one of them is null")
        except (KeyError, TypeError, IndexError, ValueError) as error:
            text = str(error) if isinstance(error, ValueError) else repr(error)
            raise ValueError(f"Not a whole report: {text}. Make the report again.") from error
        executions = Executions(data["executions"]["launches"], data["executions"]["host_seconds"])
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
        data = json_files.read(
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

    def __str__(self) -> str:
        """Returns the text summary."""
        from tensorflow_ipu.profiler.export import text_report

        return text_report.text(self)

    def _repr_html_(self) -> str:
        """Returns the report as HTML for notebooks."""
        from tensorflow_ipu.profiler.export import notebook

        return notebook.fragment(self)
