"""The JSON schema of saved reports, and the check of data against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What `format` says in the file of a report.
FORMAT = "tensorflow_ipu report"

#: Version of the schema. It grows when a reader of the version before could misread a file.
VERSION = 1

_NUMBER: dict[str, Any] = {"type": "number"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_LIST: dict[str, Any] = {"type": "array"}
_ANY_OBJECT: dict[str, Any] = {"type": "object"}
_LABEL: dict[str, Any] = {"type": "string", "enum": ["exact", "modelled", "assumed"]}


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of an object that has all of some properties, and may have more."""
    return {"type": "object", "required": list(properties), "properties": dict(properties)}


def _list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of a list."""
    return {"type": "array", "items": dict(items)}


def _columns(*names: str) -> dict[str, Any]:
    """A schema of a table given as a list for each column."""
    return _object(**dict.fromkeys(names, _LIST))


_TARGET = _object(
    chip=_TEXT,
    tiles_per_ipu=_COUNT,
    memory_per_tile=_COUNT,
    clock=_NUMBER,
    replicas=_COUNT,
    ipus_per_replica=_COUNT,
)
_EXECUTIONS = _object(launches=_COUNT, host_seconds=_NUMBER)
_LAYER = _object(
    layer=_TEXT,
    forward_cycles=_NUMBER,
    backward_cycles=_NUMBER,
    update_cycles=_NUMBER,
    variable_bytes=_COUNT,
    activation_bytes=_COUNT,
    flops=_COUNT,
    ops=_COUNT,
)
_CATEGORY = _object(name=_TEXT, always_live=_FLAG, label=_LABEL, total_bytes=_COUNT, tiles=_LIST)
_MEMORY = _object(
    ipu=_COUNT,
    capacity=_COUNT,
    fits=_FLAG,
    worst_tile=_COUNT,
    worst_bytes=_COUNT,
    total_bytes=_COUNT,
    always_live_bytes=_COUNT,
    categories=_list_of(_CATEGORY),
    peak=_LIST,
    liveness=_columns("op", "bytes", "worst_tile_bytes"),
    at_peak=_columns("buffer", "name", "category", "num_bytes", "source"),
)
_TIMELINE = _object(
    cycles=_NUMBER,
    clock=_NUMBER,
    seconds=_NUMBER,
    by_kind=_ANY_OBJECT,
    label=_LABEL,
    by_label=_ANY_OBJECT,
    ops=_columns("op", "ipu", "runs", "cost"),
    costs=_LIST,
    segments=_columns("ipu", "kind", "name", "start", "cycles", "op", "label"),
    transfers=_columns("name", "kind", "ipu", "num_bytes", "runs", "cycles", "overlapped", "label"),
)

#: The schema, in the words of JSON Schema (draft 2020-12).
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": FORMAT,
    **_object(
        format={"type": "string", "enum": [FORMAT]},
        schema_version={"type": "integer", "enum": [VERSION]},
        created=_TEXT,
        target=_TARGET,
        program=_object(name=_TEXT, fingerprint=_TEXT, options=_ANY_OBJECT),
        executions=_EXECUTIONS,
        insights=_ANY_OBJECT,
        layers=_list_of(_LAYER),
        workload=_ANY_OBJECT,
        settings=_ANY_OBJECT,
        plan=_object(memory=_list_of(_MEMORY), timeline=_TIMELINE),
    ),
}

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def check(data: Any) -> None:
    """Checks that data is a report of the version that this release reads.

    Args:
        data: what was read from a file.

    Raises:
        ValueError: it is not; the message says where and what was expected.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(
            f'Not a report of tensorflow_ipu: expected a JSON object with "format": "{FORMAT}". '
            "Give the report.json or profile.pop of a report directory."
        )
    if data.get("schema_version") != VERSION:
        raise ValueError(
            f"The report has the schema version {data.get('schema_version')!r}; this release "
            f"reads {VERSION}. Make the report again, or read it with the release that wrote it."
        )
    _check(data, SCHEMA, "report")


def _check(value: Any, schema: Mapping[str, Any], path: str) -> None:
    """Checks a value against the parts of JSON Schema that are used above."""
    expected = _TYPES[schema["type"]]
    wrong_bool = isinstance(value, bool) and bool not in expected
    if wrong_bool or not issubclass(type(value), expected):
        raise _error(path, schema["type"], value)
    if "enum" in schema and value not in schema["enum"]:
        raise _error(path, f"one of {', '.join(map(str, schema['enum']))}", value)
    if "minimum" in schema and value < schema["minimum"]:
        raise _error(path, f"a number from {schema['minimum']}", value)
    for name in schema.get("required", ()):
        if name not in value:
            raise ValueError(f"Not a whole report: {path}.{name} is missing.")
        _check(value[name], schema["properties"][name], f"{path}.{name}")
    if "items" in schema:
        for index, item in enumerate(value):
            _check(item, schema["items"], f"{path}[{index}]")


def _error(path: str, expected: str, value: Any) -> ValueError:
    """The error for a value that does not suit."""
    shown = repr(value)
    shown = shown if len(shown) < 60 else shown[:57] + "..."
    return ValueError(f"Not a report: {path} should be {expected}; received {shown}.")
