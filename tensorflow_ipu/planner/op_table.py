"""JSON tables of a Workload's ops, for `serialize`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.workload import Op, Operand

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
