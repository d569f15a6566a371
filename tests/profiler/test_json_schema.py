"""The check of data against schemas, compared with a library that does nothing else."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import fastjsonschema
import pytest

from tensorflow_ipu.profiler import budget, json_schema, schema
from tests.cli import mutations

SCHEMAS = {"report": schema.SCHEMA, "budget": budget.SCHEMA}
BUDGET = {
    "schema_version": 1,
    "report": "r.json",
    "tolerance_percent": 1.5,
    "limits": {"cycles": 3, "bytes": 4.5},
    "layers": {"a": {"cycles": 1}, "b": {}},
}


def _accepted(data: Any, wanted: dict[str, Any]) -> bool:
    try:
        json_schema.check(data, wanted, "data")
    except ValueError:
        return False
    return True


def _accepted_by_library(data: Any, validate: Any) -> bool:
    try:
        validate(data)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


def _in_json(data: Any) -> Any:
    """Data of numbers that JSON has, whole ones as ints: JSON Schema takes 1.0 for an integer."""
    if isinstance(data, dict):
        return {name: _in_json(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_in_json(value) for value in data]
    if isinstance(data, float):
        return int(data) if data.is_integer() else 1e201 if not math.isfinite(data) else data
    return data


@pytest.mark.parametrize("name", SCHEMAS)
def test_agrees_with_a_library(name: str) -> None:
    wanted = SCHEMAS[name]
    validate = fastjsonschema.compile(wanted, use_default=False)
    files = list(mutations.reports().values()) if name == "report" else [json.dumps(BUDGET)]
    accepted = 0
    for number in range(400):
        draw = random.Random(number)
        data = json.loads(draw.choice(files))
        assert _accepted(data, wanted)
        mutations.change(data, draw)
        data = _in_json(data)
        assert _accepted(data, wanted) == _accepted_by_library(data, validate), number
        accepted += _accepted(data, wanted)
    assert 40 < accepted < 360


@pytest.mark.parametrize("wanted", SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_use_the_words_that_are_checked(wanted: dict[str, Any]) -> None:
    def walk(node: dict[str, Any]) -> None:
        assert set(node) <= json_schema.WORDS | {"$schema", "title"}
        assert "type" in node
        for inner in node.get("properties", {}).values():
            walk(inner)
        items = node.get("items", [])
        for inner in items if isinstance(items, list) else [items]:
            walk(inner)
        if "additionalProperties" in node:
            walk(node["additionalProperties"])
        assert set(node.get("propertyNames", {})) <= {"enum"}
        if type(items) is list and "items" in node:
            assert node["additionalItems"] is False

    walk(wanted)
    json.dumps(wanted)


@pytest.mark.parametrize(
    ("data", "wanted", "message"),
    [
        (3, {"type": "string"}, r"x should be string; received 3"),
        (True, {"type": "integer"}, "x should be integer; received True"),
        (1.0, {"type": "integer"}, "x should be integer; received 1.0"),
        (None, {"type": ["integer", "string"]}, "x should be integer or string; received None"),
        ("c", {"type": "string", "enum": ["a", "b"]}, "x should be one of a, b; received 'c'"),
        (math.nan, {"type": "number", "minimum": 0}, "x should be a number from 0; received nan"),
        (7, {"type": "integer", "minimum": 0, "maximum": 5}, "x should be a number from 0 to 5"),
        ({}, {"type": "object", "required": ["a"]}, "x.a is missing"),
        ([1, 2], {"type": "array", "minItems": 3}, "x should be a list of 3 to inf items"),
        ([1, -1], {"type": "array", "items": {"type": "integer", "minimum": 0}}, r"x\[1\] should"),
        (
            [["a", 1], ["b", "c"]],
            {"type": "array", "items": {"type": "array", "items": [{"type": "string"}]}},
            None,
        ),
        (
            [["a", 1], ["b", 2.5]],
            {
                "type": "array",
                "items": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            },
            r"x\[1\]\[1\] should be integer; received 2.5",
        ),
        ({"k" * 500: 1}, {"type": "object", "additionalProperties": {"type": "null"}}, r"k\.\.\.k"),
    ],
    ids=range(13),
)
def test_says_where_and_what(data: Any, wanted: dict[str, Any], message: str | None) -> None:
    if message is None:
        json_schema.check(data, wanted, "x")
        return
    with pytest.raises(ValueError, match=message) as error:
        json_schema.check(data, wanted, "x")
    assert len(str(error.value)) < 500
