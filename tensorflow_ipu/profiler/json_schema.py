"""Reader of JSON files that may be damaged or foreign, and validation against a JSON schema."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

from tensorflow_ipu.configs.ranges import shown

FilePath = Union[str, "os.PathLike[str]"]


# Far beyond all reports; devices such as /dev/zero never end.
_LARGEST = 1 << 30


def read(path: FilePath, what: str, advice: str) -> Any:
    """Returns the data in a file of JSON.

    Args:
        path: the file.
        what: expected content, such as `a report of tensorflow_ipu`.
        advice: advice for the user if it is not.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JSON.
    """
    with open(path, "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{os.fspath(path)} is not {what}: it has more than {_LARGEST} bytes.")
    try:
        return json.loads(content, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{os.fspath(path)} is not {what}: it is not JSON ({error}). {advice}"
        ) from error


def _constant(text: str) -> float:
    """Raises for NaN and infinities, which Python reads as numbers and JSON does not have."""
    raise ValueError(f"{text} is no number")


# --- Validation against JSON Schema (draft 7) ---

Schema = Mapping[str, Any]


#: The words of JSON Schema that are checked; `$schema` and `title` say nothing of the data.
WORDS = frozenset(
    ("type", "enum", "minimum", "maximum", "required", "properties", "additionalProperties")
    + ("propertyNames", "items", "additionalItems", "minItems", "maxItems")
)


# Exact types: True is no number. JSON has no others.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


_LONGEST_PATH = 200


def check(value: Any, schema: Schema, path: str) -> None:
    """Checks data against a schema.

    Args:
        value: the data, as JSON gives it.
        schema: the schema.
        path: its name in errors.

    Raises:
        ValueError: it does not match; the message names place, received and expected value.
    """
    wanted = _types(schema)
    if type(value) not in wanted:
        named = schema["type"] if isinstance(schema["type"], str) else " or ".join(schema["type"])
        raise _error(path, named, value)
    if "enum" in schema and value not in schema["enum"]:
        raise _error(path, f"one of {', '.join(map(str, schema['enum']))}", value)
    if type(value) in (int, float) and not _in_range(value, schema):
        raise _error(path, f"a number {_range_text(schema)}", value)
    if type(value) is dict:
        _check_object(value, schema, path)
    elif type(value) is list:
        _check_list(value, schema, path)


def _types(schema: Schema) -> tuple[type, ...]:
    """Returns the types that a schema allows."""
    named = schema["type"]
    if isinstance(named, str):
        return _TYPES[named]
    return tuple(kind for name in named for kind in _TYPES[name])


def _in_range(value: float, schema: Schema) -> bool:
    """Returns whether a number is in the range of a schema; NaN is in none."""
    least, most = schema.get("minimum", -_INFINITY), schema.get("maximum", _INFINITY)
    return bool(least <= value <= most)


_INFINITY = float("inf")


def _range_text(schema: Schema) -> str:
    """Returns the range of a schema, such as `from 0 to 10`."""
    least, most = schema.get("minimum"), schema.get("maximum")
    words = [] if least is None else [f"from {least}"]
    return " ".join(words if most is None else [*words, f"to {most}"])


def _check_object(value: dict[str, Any], schema: Schema, path: str) -> None:
    """Checks the members of an object."""
    for name in schema.get("required", ()):
        if name not in value:
            raise ValueError(f"{_short(path)}.{name} is missing")
    properties = schema.get("properties", {})
    for name, inner in properties.items():
        if name in value:
            check(value[name], inner, f"{path}.{name}")
    if "propertyNames" in schema:
        for name in value:
            check(name, {"type": "string", **schema["propertyNames"]}, f"a name in {path}")
    others = schema.get("additionalProperties")
    for name, member in value.items():
        if name in properties:
            continue
        if others is None:
            _check_unknown(member, f"{path}.{name}")
        else:
            check(member, others, f"{path}.{name}")


def _check_unknown(value: Any, path: str) -> None:
    """Checks that all numbers in a value are finite, where the schema says nothing of it.

    JSON has no others, but Python reads 1e999 as infinity.
    """
    left = [(value, path)]
    while left:
        value, path = left.pop()
        if type(value) is float and not math.isfinite(value):
            raise _error(path, "a number", value)
        if type(value) is dict:
            left += [(member, f"{path}.{name}") for name, member in value.items()]
        elif type(value) is list:
            left += [(item, f"{path}[{index}]") for index, item in enumerate(value)]


def _check_list(value: list[Any], schema: Schema, path: str) -> None:
    """Checks the items of a list, many at once where that is possible."""
    items = schema.get("items", {})
    least, most = schema.get("minItems", 0), schema.get("maxItems", _INFINITY)
    if isinstance(items, list) and schema.get("additionalItems") is False:
        most = min(most, len(items))
    if not least <= len(value) <= most:
        raise _error(path, f"a list of {least} to {most} items", f"{len(value)} items")
    if isinstance(items, list):
        for index, (item, inner) in enumerate(zip(value, items)):
            check(item, inner, f"{path}[{index}]")
    elif not items:
        _check_unknown(value, path)
    elif not _all_fit(value, items):
        for index, item in enumerate(value):
            check(item, items, f"{path}[{index}]")


def _all_fit(values: Sequence[Any], schema: Schema) -> bool:
    """Returns whether many values match a schema; False also if one check cannot decide it."""
    kinds = set(map(type, values))
    if not kinds <= set(_types(schema)) or dict in kinds:
        return False
    if list in kinds:
        return kinds == {list} and _all_rows_fit(values, schema)
    if "enum" in schema:
        return set(values) <= set(schema["enum"])
    return all(_in_range(value, schema) for value in values if type(value) in (int, float))


def _all_rows_fit(rows: Sequence[list[Any]], schema: Schema) -> bool:
    """Returns whether many lists match a schema, checked column by column."""
    items = schema.get("items", {})
    lengths = set(map(len, rows))
    if min(lengths) < schema.get("minItems", 0) or max(lengths) > schema.get("maxItems", _INFINITY):
        return False
    if isinstance(items, list):
        if len(lengths) != 1 or max(lengths) > len(items):
            return False
        return all(_all_fit(column, inner) for column, inner in zip(zip(*rows), items))
    return bool(items) and _all_fit(list(itertools.chain.from_iterable(rows)), items)


def _error(path: str, expected: str, value: Any) -> ValueError:
    """Returns the error for a value that does not match."""
    return ValueError(f"{_short(path)} should be {expected}; received {shown(value)}")


def _short(path: str) -> str:
    """Returns a path for errors, with long keys cut."""
    return path if len(path) <= _LONGEST_PATH else f"{path[:100]}...{path[-50:]}"
