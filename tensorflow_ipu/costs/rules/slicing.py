"""Costs of dynamic slices: embeddings, gathers, scatters, lists in loops."""

from __future__ import annotations

import dataclasses
import math

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import exchange_cycles
from tensorflow_ipu.costs.chip.vertex import (
    exchange_code,
    per_worker,
    phase,
    share,
    supervised,
    type_name,
)
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rule import Rule, rules
from tensorflow_ipu.costs.rules.data_movement import local_copy
from tensorflow_ipu.costs.rules.elementwise import expression_cycles

# Dynamic slice: cycles besides the workers, of a worker, of a slice, and of one of its vectors.
_SLICE, _SLICE_WORKER, _EACH_SLICE, _SLICE_VECTOR = 25, 39, 24, 2
# Multi-slice: cycles of a worker, of an index whose row the tile has, and of another index.
_GATHER_WORKER, _INSIDE, _OUTSIDE = 30, 19, 8
# Elements and cycles of a vector of it by element size.
_GATHER_VECTORS = {8: (1, 2), 4: (2, 2), 2: (2, 2), 1: (4, 3)}
# Multi-update-add: cycles of a worker, of an element of a row the tile has, and of another index.
_SCATTER_WORKER, _SCATTER_ATOM, _SCATTER_OUTSIDE = 12, 3, 5
# All of these are from `popops` of graphcore/poplibs. Its planner splits a table by rows and by
# columns: powers of two are tried.
_INDEX_BYTES = 4


def slice_cycles(elements: int, element_size: int, slices: int, chip: Chip) -> float:
    """Returns the tile's cycles of a dynamic slice or update.

    Formula: `25 + workers x (39 + (24 + 2 x ceil(n / vector)) x slices)`, with vectors of 64 bits
    and n the elements of a slice that one worker has.

    Args:
        elements: elements of one slice on the tile.
        element_size: bytes of one.
        slices: number of slices.
        chip: the chip.
    """
    width = max(8 // max(element_size, 1), 1)
    vectors = -(-per_worker(elements, chip) // width)
    worker = _SLICE_WORKER + (_EACH_SLICE + _SLICE_VECTOR * vectors) * slices
    return _SLICE + chip.workers_per_tile * worker


def gather_cycles(inside: int, outside: int, columns: int, size: int, chip: Chip) -> float:
    """Returns the tile's cycles of a multi-slice.

    Formula: `workers x (30 + inside x (19 + vectors x cycles) + outside x 8)`; the vectors of a row
    are shared by the workers.

    Args:
        inside: indices whose rows the tile has.
        outside: other indices, which it looks at in vain.
        columns: elements of a row that the tile has.
        size: bytes of one.
        chip: the chip.
    """
    width, cycles = _GATHER_VECTORS.get(size, (2, 2))
    vectors = -(-per_worker(columns, chip) // width)
    worker = _GATHER_WORKER + inside * (_INSIDE + vectors * cycles) + outside * _OUTSIDE
    return chip.workers_per_tile * worker


def scatter_cycles(inside: int, outside: int, columns: int, chip: Chip) -> float:
    """Returns the tile's cycles of a multi-update-add: 3 an element and 5 for each other index."""
    atoms = inside * per_worker(columns, chip)
    worker = _SCATTER_WORKER + _SCATTER_ATOM * atoms + _SCATTER_OUTSIDE * outside
    return supervised(worker, chip)


def indexed(name: str, indices: int, row: TensorType, resources: Resources, scatters: bool) -> Cost:
    """Returns the cost of taking rows of a table by index, or of adding to them.

    Formula: the cheapest of splits of the table into R parts by rows and C by columns, with R x C
    tiles; each tile receives all indices, has `1 / R` of the rows asked for, and sends or receives
    its columns of the rows.

    Args:
        name: name of the operation, for the vertex.
        indices: number of indices.
        row: type and length of a row of the table.
        resources: what it has at its disposal.
        scatters: whether rows are added to, rather than taken.
    """
    chip = resources.chip
    plans = [
        _split(indices, row, resources, 2**power, scatters)
        for power in range(resources.tiles.bit_length())
    ]
    compute, received = min(plans, key=lambda plan: plan[0] + exchange_cycles(plan[1], chip))
    cost = phase(compute, f"{name}_{type_name(row.dtype)}", chip, received=received)
    # What the plan that was chosen needs would jump with the number of tiles: here it is indices,
    # and twice the tile's part of the rows, before and after they are put in order.
    temporary = 2 * _part(indices, row, resources) + indices * _INDEX_BYTES
    return dataclasses.replace(cost, temporary=temporary, exchange_code=exchange_code(temporary))


def _part(indices: int, row: TensorType, resources: Resources) -> int:
    """Bytes of the rows on the fullest tile."""
    elements = share(indices * row.elements, row.element_size, resources.tiles)
    return elements * row.element_size


def _split(
    indices: int, row: TensorType, resources: Resources, column_parts: int, scatters: bool
) -> tuple[float, int]:
    """Compute cycles and bytes received of a tile, with the columns in so many parts."""
    chip, columns = resources.chip, -(-row.elements // column_parts)
    inside = -(-indices // (resources.tiles // column_parts))
    outside = indices - inside
    if scatters:
        moved = indices * columns * row.element_size
        return scatter_cycles(inside, outside, columns, chip), indices * _INDEX_BYTES + moved
    compute = gather_cycles(inside, outside, columns, row.element_size, chip)
    return compute, indices * _INDEX_BYTES + _part(indices, row, resources)


def _row(whole: TensorType, indices: int) -> TensorType:
    """A row, given all rows together."""
    return TensorType(whole.dtype, (-(-whole.elements // max(indices, 1)),))


def _take(spec: OpSpec, resources: Resources) -> Cost:
    """Gather, GatherV2, ResourceGather: one index for each row."""
    result, count = spec.output(), spec.input(1).elements
    return indexed("MultiSlice", count, _row(result, count), resources, scatters=False)


def _take_points(spec: OpSpec, resources: Resources) -> Cost:
    """GatherNd: the last dimension of the indices makes up one index."""
    result, count = spec.output(), math.prod(spec.input(1).shape[:-1])
    return indexed("MultiSlice", count, _row(result, count), resources, scatters=False)


def _add_rows(values: int, index: int, points: bool, copied: bool) -> Rule:
    """A rule for ops that change rows of a tensor or variable.

    Args:
        values: position of the new rows among the inputs.
        index: position of the indices.
        points: whether the last dimension of the indices makes up one index.
        copied: whether the result is a tensor of its own, which the op's first input is copied to.
    """

    def cost(spec: OpSpec, resources: Resources) -> Cost:
        rows, shape = spec.input(values), spec.input(index).shape
        count = math.prod(shape[:-1] if points else shape)
        changed = indexed("MultiUpdate", count, _row(rows, count), resources, scatters=True)
        if not copied:
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
    return phase(cycles, codelet, resources.chip, received=_INDEX_BYTES)


def _one_hot(spec: OpSpec, resources: Resources) -> Cost:
    """Each element compares its place with the row's index and takes one of two values."""
    result, indices = spec.output(), spec.input(0)
    on_tile = share(result.elements, result.element_size, resources.tiles)
    received = min(indices.elements, on_tile) * _INDEX_BYTES
    cycles = expression_cycles(("compare", "select"), on_tile, result.dtype, resources.chip)
    codelet = f"OneHot_{type_name(result.dtype)}"
    return phase(cycles, codelet, resources.chip, received, received, label=Label.ASSUMED)


def _stitch(spec: OpSpec, resources: Resources) -> Cost:
    """DynamicStitch: rows of several tensors go to places given by as many tensors of indices."""
    half = len(spec.inputs) // 2
    count = sum(tensor.elements for tensor in spec.inputs[:half])
    return indexed("MultiUpdate", count, _row(spec.output(), count), resources, scatters=True)


def _segments(spec: OpSpec, resources: Resources) -> Cost:
    """SegmentSum and the like: rows are added to those of the result that their segment names."""
    data, count = spec.input(0), spec.input(1).elements
    return indexed("MultiUpdate", count, _row(data, count), resources, scatters=True)


_SCATTERS = "Add Sub Mul Div Min Max Update".split()

RULES: dict[str, Rule] = {
    **rules(_take, "Gather GatherV2 ResourceGather TensorListGather"),
    **rules(_take_points, "GatherNd ResourceGatherNd"),
    **{f"ResourceScatter{kind}": _add_rows(2, 1, False, False) for kind in _SCATTERS},
    **{f"ResourceScatterNd{kind}": _add_rows(2, 1, True, False) for kind in _SCATTERS},
    **{f"TensorScatter{kind}": _add_rows(2, 1, True, True) for kind in _SCATTERS},
    "ScatterNd": _add_rows(1, 0, True, True),
    "TensorListScatter": _add_rows(0, 1, False, False),
    "TensorListScatterIntoExistingList": _add_rows(1, 2, False, False),
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
