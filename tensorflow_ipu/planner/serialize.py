"""JSON data of Workloads and Settings.

Ops, buffers, variables and copies are tables: a list of rows, and the names of the columns once.
Types, texts and attributes that many ops share are in tables of their own and named by position.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.schedule.description import PipelineDescription
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import VARIABLE, Buffer, Copy, Op, Operand, Variable, Workload

# --- JSON tables of a Workload's ops, for `serialize` ---

# Columns of the table of ops: texts by their position, inputs and outputs as pairs of positions of
# a type and a buffer in one list, attributes by their position.
_COLUMNS = (
    *("name", "type", "layer", "ipu", "inputs", "outputs", "attributes", "end", "runs"),
    *("trip_count", "conditional", "stage", "phase", "source", "flops", "label"),
    "branch",
)


_TEXTS = ("name", "type", "layer", "phase", "source")


_Kept = TypeVar("_Kept")


class _Positions:
    """Distinct values in the order in which they came."""

    def __init__(self) -> None:
        self._found: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        """Returns the position of a value."""
        return self._found.setdefault(value, len(self._found))

    def all(self) -> list[Any]:
        """Returns all values."""
        return list(self._found)


class OpWriter:
    """Converter of ops to tables."""

    def __init__(self) -> None:
        self._texts, self._types, self._attributes = _Positions(), _Positions(), _Positions()

    def tables(self, ops: Sequence[Op]) -> dict[str, Any]:
        """Returns the tables by name: `ops`, `texts`, `types` and `attributes`."""
        rows = [self._row(op) for op in ops]
        return {
            "texts": self._texts.all(),
            "types": [[dtype, list(shape)] for dtype, shape in self._types.all()],
            "attributes": [json.loads(text) for text in self._attributes.all()],
            "ops": {"fields": list(_COLUMNS), "rows": rows},
        }

    def _row(self, op: Op) -> list[Any]:
        text = self._texts.of
        return [
            *(text(op.name), text(op.type), text(op.layer), op.ipu),
            *(self._operands(op.inputs), self._operands(op.outputs)),
            self._attributes.of(json.dumps(dict(op.attributes))),
            *(op.end, op.runs, op.trip_count, op.conditional, op.stage),
            *(text(op.phase), text(op.source), op.flops, op.label.value, op.branch),
        ]

    def _operands(self, operands: Sequence[Operand]) -> list[int | None]:
        flat: list[int | None] = []
        for dtype, shape, buffer in operands:
            flat += (self._types.of((dtype, shape)), buffer)
        return flat


class OpReader:
    """Converter of tables to ops.

    Args:
        data: the tables by name.
        buffers: number of buffers of the Workload.

    Raises:
        KeyError: A table is missing.
        ValueError: The table of ops has other columns.
    """

    def __init__(self, data: Mapping[str, Any], buffers: int) -> None:
        self._texts: list[str] = data["texts"]
        self._types = [(dtype, tuple(shape)) for dtype, shape in data["types"]]
        self._attributes: list[dict[str, Any]] = data["attributes"]
        self._rows: list[list[Any]] = data["ops"]["rows"]
        self._buffers = buffers
        self._known: dict[tuple[int, int | None], Operand] = {}
        if data["ops"]["fields"] != list(_COLUMNS):
            raise ValueError(
                f"ops have the columns {data['ops']['fields']} instead of {list(_COLUMNS)}"
            )

    def ops(self) -> tuple[Op, ...]:
        """Returns the ops.

        Raises:
            ValueError: A row is not one of an op.
        """
        labels = {label.value: label for label in Label}
        return tuple(self._op(index, row, labels) for index, row in enumerate(self._rows))

    def _op(self, index: int, row: list[Any], labels: Mapping[str, Label]) -> Op:
        fields = dict(zip(_COLUMNS, row))
        if len(row) != len(_COLUMNS) or fields["label"] not in labels:
            raise ValueError(f"op {index} is {row}")
        if not index < fields["end"] <= len(self._rows):
            raise ValueError(f"op {index} of {len(self._rows)} ends at {fields['end']}")
        for name in _TEXTS:
            fields[name] = _at(self._texts, fields[name])
        fields["attributes"] = _at(self._attributes, fields["attributes"])
        fields["label"] = labels[fields["label"]]
        fields["inputs"] = self._operands(fields["inputs"])
        fields["outputs"] = self._operands(fields["outputs"])
        return Op(**fields)

    def _operands(self, flat: list[Any]) -> tuple[Operand, ...]:
        return tuple([self._operand(*pair) for pair in zip(flat[::2], flat[1::2])])

    def _operand(self, kind: int, buffer: int | None) -> Operand:
        """Returns an operand; equal ones are the same object."""
        known = self._known.get((kind, buffer))
        if known is None:
            if buffer is not None and not 0 <= buffer < self._buffers:
                raise ValueError(f"buffer {buffer} of {self._buffers}")
            known = self._known[kind, buffer] = Operand(*_at(self._types, kind), buffer)
        return known


def _at(values: Sequence[_Kept], position: int) -> _Kept:
    """Returns the value at a position; raises for a negative one."""
    if position < 0:
        raise ValueError(f"position {position} of {len(values)}")
    return values[position]


# --- JSON data of Workloads and Settings ---

#: Version of the form that is written, and the only one that is read.
SCHEMA_VERSION = 1


_Made = TypeVar("_Made")


_KINDS = {"workload": "a Workload", "settings": "Settings"}


def workload_to_dict(workload: Workload) -> dict[str, Any]:
    """Returns a Workload as data for JSON.

    Args:
        workload: the Workload. Its ops' attributes are numbers, texts, booleans or lists of them.
    """
    pipeline = workload.pipeline
    return {
        "kind": "workload",
        "version": SCHEMA_VERSION,
        "name": workload.name,
        "ipus": workload.ipus,
        "batch": workload.batch,
        "fingerprint": workload.fingerprint,
        "api": workload.api,
        "stage_names": list(workload.stage_names),
        "pipeline": None if pipeline is None else json.loads(pipeline.to_json()),
        "variables": _table(Variable._fields, workload.variables),
        "copies": _table(Copy._fields, workload.copies),
        "buffers": _table(Buffer._fields, workload.buffers),
        **OpWriter().tables(workload.ops),
    }


def workload_from_dict(data: Mapping[str, Any]) -> Workload:
    """Returns the Workload that `workload_to_dict` described.

    Args:
        data: the data, as read from JSON.

    Raises:
        ValueError: it is something else, or of another version.
    """
    _check(data, "workload")
    return _reading("workload", lambda: _workload(data))


def settings_to_dict(settings: Settings) -> dict[str, Any]:
    """Returns Settings as data for JSON, with a chip as its name and differences."""
    fields = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.name not in ("chip", "stage_options")
    }
    options = [[*key, dict(value)] for key, value in settings.stage_options.items()]
    return {
        "kind": "settings",
        "version": SCHEMA_VERSION,
        **{name: _plain(value) for name, value in fields.items()},
        "chip": _chip_to_dict(settings.chip),
        "stage_options": options,
    }


def settings_from_dict(data: Mapping[str, Any]) -> Settings:
    """Returns the Settings that `settings_to_dict` described.

    Args:
        data: the data, as read from JSON. Fields may be missing: they have their defaults.

    Raises:
        ValueError: it is something else, or of another version.
    """
    _check(data, "settings")
    return _reading("settings", lambda: _settings(data))


def _workload(data: Mapping[str, Any]) -> Workload:
    buffers = tuple(
        Buffer(**{**row, "shape": tuple(row["shape"]), "label": Label(row["label"])})
        for row in _rows(data["buffers"], Buffer._fields)
    )
    variables = tuple(
        Variable(**{**row, "shape": tuple(row["shape"])})
        for row in _rows(data["variables"], Variable._fields)
    )
    for index, buffer in enumerate(buffers):
        if buffer.variable is not None and not 0 <= buffer.variable < len(variables):
            raise ValueError(f"buffer {index} is of variable {buffer.variable}")
    pipeline = data["pipeline"]
    return Workload(
        name=data["name"],
        ops=OpReader(data, len(buffers)).ops(),
        buffers=buffers,
        variables=variables,
        copies=tuple(
            Copy(**{**row, "label": Label(row["label"])})
            for row in _rows(data["copies"], Copy._fields)
        ),
        ipus=data["ipus"],
        pipeline=None if pipeline is None else PipelineDescription.from_json(json.dumps(pipeline)),
        stage_names=tuple(data["stage_names"]),
        batch=data["batch"],
        fingerprint=data["fingerprint"],
        api=data.get("api", ""),
    )


def _settings(data: Mapping[str, Any]) -> Settings:
    known = {field.name for field in dataclasses.fields(Settings)}
    fields = {name: value for name, value in data.items() if name not in ("kind", "version")}
    if set(fields) - known:
        raise ValueError(f"unknown fields {sorted(set(fields) - known)}")
    if "chip" in fields:
        fields["chip"] = _chip_from_dict(fields["chip"])
    if "stage_options" in fields:
        fields["stage_options"] = {
            (stage, phase): dict(options) for stage, phase, options in fields["stage_options"]
        }
    if fields.get("stage_devices") is not None:
        fields["stage_devices"] = tuple(fields["stage_devices"])
    return Settings(**fields)


def _chip_to_dict(chip: Chip) -> dict[str, Any]:
    known = {figure.name: figure.value for figure in chips.get(chip.name).figures()}
    changed = {f.name: f.value for f in chip.figures() if f.value != known[f.name]}
    return {"name": chip.name, **changed}


def _chip_from_dict(data: Mapping[str, Any]) -> Chip:
    changed = dict(data)
    chip = chips.get(changed.pop("name"))
    wrong = set(changed) - {figure.name for figure in chip.figures()}
    if wrong:
        raise ValueError(f"unknown figures of a chip {sorted(wrong)}")
    return dataclasses.replace(chip, **changed)


def _table(fields: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Returns named tuples as a table."""
    return {"fields": list(fields), "rows": [[_plain(value) for value in row] for row in rows]}


def _rows(table: Mapping[str, Any], fields: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the rows of a table by column name; columns with a default may be missing."""
    names = table["fields"]
    unknown = set(names) - set(fields)
    if unknown:
        raise ValueError(f"unknown columns {sorted(unknown)}")
    for number, row in enumerate(table["rows"]):
        if len(row) != len(names):
            raise ValueError(f"{len(row)} values in row {number}, for {len(names)} columns")
    return [dict(zip(names, row)) for row in table["rows"]]


def _plain(value: Any) -> Any:
    """Returns the value of a field as data for JSON."""
    if isinstance(value, Label):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _check(data: Mapping[str, Any], kind: str) -> None:
    """Raises unless data has the expected kind and version."""
    if not isinstance(data, Mapping) or data.get("kind") != kind:
        received = data.get("kind") if isinstance(data, Mapping) else type(data).__name__
        raise ValueError(
            f"Expected the data of {_KINDS[kind]}, an object whose 'kind' is {kind!r}; received "
            f"{received!r}. Give what {kind}_to_dict returned."
        )
    if data.get("version") != SCHEMA_VERSION:
        raise ValueError(
            f"Expected {_KINDS[kind]} of version {SCHEMA_VERSION}; received version "
            f"{data.get('version')!r}. Write it again with this release of tensorflow_ipu."
        )


def _reading(kind: str, read: Callable[[], _Made]) -> _Made:
    """Reads data; reports every fault of it as one kind of ValueError."""
    try:
        return read()
    except KeyError as error:
        problem = f"data without {error}"
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        problem = f"data that is not of that form ({error})"
    raise ValueError(
        f"Expected the data of {_KINDS[kind]} as {kind}_to_dict returns it; received {problem}."
    )


# --- Checks that a Workload and Settings read from a file describe a program ---

# `profiler/schema.py` has checked each value on its own. This module checks the relations between
# values, so that planning needs no checks.

# Far beyond all memory; sums of a program's tensors still fit 64 bits.
_MOST_BYTES = 2**50


# A schedule has an entry for each mini-batch, stage and phase.
_MOST_ENTRIES = 10**6


_PHASES = ("", "forward", "backward", "update")


def check(workload: Workload, settings: Settings) -> None:
    """Checks a program and its Settings against each other.

    Args:
        workload: the program.
        settings: chip, replicas and options.

    Raises:
        ValueError: they contradict themselves; the message says where.
    """
    _check_places(workload)
    _check_phases(workload)
    _check_buffers(workload)
    _check_nesting(workload)
    _check_pipeline(workload)
    if settings.compute_tiles < 1:
        raise ValueError(
            f"of {settings.chip.tiles} tiles {settings.io_tiles} are I/O tiles, which leaves none"
        )
    if settings.replicas % settings.instances:
        raise ValueError(
            f"{settings.replicas} replicas are not divided evenly among {settings.instances} "
            "instances"
        )
    devices = settings.stage_devices
    if devices is not None and (
        workload.pipeline is None
        or len(devices) != workload.pipeline.stages
        or max(devices, default=0) >= workload.ipus
    ):
        raise ValueError(f"stage_devices {devices} are not the IPUs of the program's stages")


def _check_places(workload: Workload) -> None:
    """Raises if an op names an IPU or stage that does not exist."""
    _check_below("op", "IPU", (op.ipu for op in workload.ops), workload.ipus)
    _check_below("buffer", "IPU", (buffer.ipu for buffer in workload.buffers), workload.ipus)
    _check_below("variable", "IPU", (v.ipu for v in workload.variables), workload.ipus)
    ends = (max(copy.source, copy.destination) for copy in workload.copies)
    _check_below("copy", "IPU", ends, workload.ipus)
    stages = 0 if workload.pipeline is None else workload.pipeline.stages
    _check_below("op", "stage", (op.stage for op in workload.ops), stages)
    _check_below("copy", "stage", (copy.stage for copy in workload.copies), stages)


def _check_phases(workload: Workload) -> None:
    """Raises if ops or copies have an unknown phase."""
    phases = [(f"op {index}", op.phase) for index, op in enumerate(workload.ops)]
    phases += [(f"copy {index}", copy.phase) for index, copy in enumerate(workload.copies)]
    for item, phase in phases:
        if phase not in _PHASES:
            expected = ", ".join(map(repr, _PHASES))
            raise ValueError(f"{item} has the phase {phase!r}; expected one of {expected}")


def _check_below(kind: str, what: str, numbers: Iterable[int | None], count: int) -> None:
    """Raises if an index is not below the number of its objects."""
    for index, number in enumerate(numbers):
        if number is not None and not 0 <= number < count:
            raise ValueError(f"{kind} {index} names {what} {number} of {count}")


def _check_buffers(workload: Workload) -> None:
    """Raises if a buffer's size is impossible, or a variable's buffer has no variable."""
    for index, buffer in enumerate(workload.buffers):
        if (buffer.kind == VARIABLE) != (buffer.variable is not None):
            raise ValueError(f"buffer {index} is a {buffer.kind} of variable {buffer.variable}")
        if buffer.batched is not None and buffer.batched >= len(buffer.shape):
            raise ValueError(
                f"buffer {index} grows in dimension {buffer.batched} of {list(buffer.shape)}"
            )
    total = sum(buffer.num_bytes for buffer in workload.buffers)
    total += sum(variable.num_bytes for variable in workload.variables)
    types = {operand.type for op in workload.ops for operand in (*op.inputs, *op.outputs)}
    largest = max((tensor.num_bytes for tensor in types), default=0)
    if max(total, largest) > _MOST_BYTES:
        raise ValueError(f"tensors of more than {_MOST_BYTES} bytes")


def _check_nesting(workload: Workload) -> None:
    """Raises if an op of a loop or branch ends after it."""
    open_ends = [len(workload.ops)]
    for index, op in enumerate(workload.ops):
        while open_ends[-1] <= index:
            open_ends.pop()
        if op.end > open_ends[-1]:
            raise ValueError(
                f"op {index} ends at {op.end}, and the op around it at {open_ends[-1]}"
            )
        open_ends.append(op.end)


def _check_pipeline(workload: Workload) -> None:
    """Raises if the pipeline uses missing IPUs, or is longer than any schedule."""
    pipeline = workload.pipeline
    if pipeline is None:
        return
    if max(pipeline.ipus) >= workload.ipus:
        raise ValueError(f"a stage is on IPU {max(pipeline.ipus)} of {workload.ipus}")
    if workload.stage_names and len(workload.stage_names) != pipeline.stages:
        raise ValueError(f"{len(workload.stage_names)} names for {pipeline.stages} stages")
    if pipeline.mini_batches * pipeline.stages > _MOST_ENTRIES:
        raise ValueError(
            f"{pipeline.mini_batches} mini-batches of {pipeline.stages} stages make a schedule "
            f"with more than {_MOST_ENTRIES} entries"
        )
