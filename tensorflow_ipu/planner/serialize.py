"""JSON data of Workloads and Settings.

Ops, buffers, variables and copies are tables: a list of rows, and the names of the columns once.
Types, texts and attributes that many ops share are in tables of their own and named by position.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.op_table import OpReader, OpWriter
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Buffer, Copy, Variable, Workload
from tensorflow_ipu.schedule.description import PipelineDescription

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
