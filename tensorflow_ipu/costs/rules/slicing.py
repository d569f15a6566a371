"""Costs of dynamic slices: embeddings, gathers, scatters, lists in loops."""

from __future__ import annotations

import math
from typing import NamedTuple

from tensorflow_ipu.costs.chip.slices import slice_cycles
from tensorflow_ipu.costs.chip.vertex import phase, share, type_name
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rule import Rule, rules
from tensorflow_ipu.costs.rules.data_movement import local_copy
from tensorflow_ipu.costs.rules.elementwise import expression_cycles
from tensorflow_ipu.costs.rules.slice_partition import INDEX_BYTES, lookup, update

# Updates in which the last index of a row counts, so that no partial sums can be made.
_REPLACING = "Update"


def table_of(whole: TensorType, rows: TensorType, count: int) -> TensorType:
    """Returns a table as lookups and updates see it: rows, and the elements of a row.

    Args:
        whole: all of the table; a handle, which has no elements, stands for as many rows as given.
        rows: the rows that are taken or changed, all together.
        count: how many these are.
    """
    columns = max(-(-rows.elements // max(count, 1)), 1)
    known = whole.elements if whole.element_size else count * columns
    return TensorType(rows.dtype, (max(-(-known // columns), 1), columns))


def _take(spec: OpSpec, resources: Resources) -> Cost:
    """Gather, GatherV2, ResourceGather: one index for each row."""
    count = spec.input(1).elements
    return lookup(count, table_of(spec.input(0), spec.output(), count), resources)


def _take_points(spec: OpSpec, resources: Resources) -> Cost:
    """GatherNd: the last dimension of the indices makes up one index."""
    count = math.prod(spec.input(1).shape[:-1])
    return lookup(count, table_of(spec.input(0), spec.output(), count), resources)


class _Operands(NamedTuple):
    """Where an op that changes rows has its operands.

    Args:
        values: position of the new rows among the inputs.
        indices: position of the indices.
        points: whether the last dimension of the indices makes up one index.
        table: position of the table among the inputs; None if that is the result.
        copied: whether the result is a tensor of its own.
    """

    values: int = 2
    indices: int = 1
    points: bool = False
    table: int | None = 0
    copied: bool = False


def _changed_rows(operands: _Operands, combines: bool = True) -> Rule:
    """A rule for ops that change rows of a tensor or variable."""

    def cost(spec: OpSpec, resources: Resources) -> Cost:
        rows, shape = spec.input(operands.values), spec.input(operands.indices).shape
        count = math.prod(shape[:-1] if operands.points else shape)
        whole = spec.output() if operands.table is None else spec.input(operands.table)
        changed = update(count, table_of(whole, rows, count), resources, combines)
        if not operands.copied:
            return changed
        return local_copy(sum(t.num_bytes for t in spec.outputs), resources) + changed

    return Rule(cost)


def _one_slice(spec: OpSpec, resources: Resources) -> Cost:
    """An item of a list is read or written at a position known when the program runs."""
    items = [t for t in (*spec.outputs, *spec.inputs) if t.element_size]
    item = max(items, key=lambda tensor: tensor.num_bytes, default=TensorType("float32", ()))
    on_tile = share(item.elements, item.element_size, resources.tiles)
    cycles = slice_cycles(on_tile, item.element_size, 1, resources.chip)
    codelet = f"DynamicSlice_{type_name(item.dtype)}"
    return phase(cycles, codelet, resources.chip, received=INDEX_BYTES)


def _one_hot(spec: OpSpec, resources: Resources) -> Cost:
    """Each element compares its place with the row's index and takes one of two values."""
    result, indices = spec.output(), spec.input(0)
    on_tile = share(result.elements, result.element_size, resources.tiles)
    received = min(indices.elements, on_tile) * INDEX_BYTES
    cycles = expression_cycles(("compare", "select"), on_tile, result.dtype, resources.chip)
    codelet = f"OneHot_{type_name(result.dtype)}"
    return phase(cycles, codelet, resources.chip, received, received, label=Label.ASSUMED)


def _stitch(spec: OpSpec, resources: Resources) -> Cost:
    """DynamicStitch: rows of several tensors go to places given by as many tensors of indices."""
    half = len(spec.inputs) // 2
    count = sum(tensor.elements for tensor in spec.inputs[:half])
    result = spec.output()
    return update(count, table_of(result, result, count), resources, combines=False)


def _segments(spec: OpSpec, resources: Resources) -> Cost:
    """SegmentSum and the like: rows are added to those of the result that their segment names."""
    data, count = spec.input(0), spec.input(1).elements
    return update(count, table_of(spec.output(), data, count), resources)


def _scatters(prefix: str, operands: _Operands) -> dict[str, Rule]:
    """The rules for all kinds of scatters with some operands."""
    return {f"{prefix}{kind}": _changed_rows(operands, kind != _REPLACING) for kind in _SCATTERS}


_SCATTERS = "Add Sub Mul Div Min Max Update".split()

RULES: dict[str, Rule] = {
    **rules(_take, "Gather GatherV2 ResourceGather TensorListGather"),
    **rules(_take_points, "GatherNd ResourceGatherNd"),
    **_scatters("ResourceScatter", _Operands()),
    **_scatters("ResourceScatterNd", _Operands(points=True)),
    **_scatters("TensorScatter", _Operands(points=True, copied=True)),
    "ScatterNd": _changed_rows(_Operands(1, 0, True, None, copied=True)),
    "TensorListScatter": _changed_rows(_Operands(0, 1), combines=False),
    "TensorListScatterIntoExistingList": _changed_rows(_Operands(1, 2), combines=False),
    **rules(_one_slice, "TensorListGetItem TensorListSetItem"),
    **rules(_one_hot, "OneHot"),
    **rules(_stitch, "DynamicStitch ParallelDynamicStitch"),
    **rules(
        _segments,
        """
        SegmentSum SegmentMax SegmentMin SegmentProd SegmentMean UnsortedSegmentSum
        UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
        """,
    ),
}
