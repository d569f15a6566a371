"""Costs of dynamic slices: embeddings, gathers, scatters, lists in loops."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import vertex
from tensorflow_ipu.costs.chip.amp import Number
from tensorflow_ipu.costs.chip.exchange import sync_cycles
from tensorflow_ipu.costs.chip.vertex import (
    exchange_code,
    lookup_cycles,
    phase,
    share,
    slice_cycles,
    type_name,
    update_cycles,
    vertex_state,
)
from tensorflow_ipu.costs.cost import (
    FREE,
    Cost,
    OpSpec,
    Partition,
    Resources,
    Rule,
    TensorType,
    memory_bound,
    rules,
)
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.data_movement import local_copy
from tensorflow_ipu.costs.rules.elementwise import expression_cycles

# --- Partition of lookups and updates ---

# As the planner of poplibs does: the rows of the table, its columns and the indices are split over
# the tiles. The tiles of each part of the indices need a copy of the table to look up in, and add
# to a table of partial sums. The cheapest of a fixed set of partitions counts. The cost of each
# does not depend on the number of tiles, so more tiles never take longer.

INDEX_BYTES = 4

# Sums of parts of the indices are kept in 32 bits, as those of reductions.
_PARTIALS, _PARTIAL_BYTES = "float32", 4

# A vertex of a slice has the table, the indices and the rows.
_OPERANDS = 3

# Columns are not split below words of the exchange.
_WORD = 4

# Parts of a dimension that are tried: powers of two, three times these, and divisors of the
# numbers of tiles that chips have, 64 x 19 and 64 x 23.
_COUNTS = np.array(
    sorted({n for k in range(11) for n in (2**k, 3 * 2**k, 19 * 2**k, 23 * 2**k) if n <= 1472})
)


class Splits(NamedTuple):
    """Partitions as arrays: the number of parts of each dimension, one partition a place."""

    rows: Number
    columns: Number
    indices: Number

    @property
    def tiles(self) -> Number:
        """Tiles that take part."""
        return self.rows * self.columns * self.indices


class Block(NamedTuple):
    """The fullest tile's part of a table and of the indices, in each partition.

    Args:
        rows: rows of the table.
        columns: elements of a row.
        indices: indices that it goes through.
        inside: those of them whose rows it has.
        size: bytes of an element.
    """

    rows: Number
    columns: Number
    indices: Number
    inside: Number
    size: int

    @property
    def part(self) -> Number:
        """Elements of the table."""
        return self.rows * self.columns

    @property
    def moved(self) -> Number:
        """Bytes of the rows of all its indices."""
        return self.indices * self.columns * self.size


class _Phases(NamedTuple):
    """Cycles and bytes of a tile in each partition, of all phases together."""

    compute: Number
    received: Number
    count: Number  # of phases
    copied: Number  # bytes of copies of the table
    others: Number  # bytes of everything else, which can be done in parts


def lookup(indices: int, table: TensorType, resources: Resources) -> Cost:
    """Returns the cost of taking rows of a table by index.

    Formula: each tile receives its part of the indices and, where these are split, its part of the
    table, and takes the rows that it has. Where rows are split, every tile of a column then
    receives what all have in the place of its rows, as no exchange depends on data, and takes the
    right ones. See `slices.lookup_cycles`.

    Args:
        indices: number of indices.
        table: type of the table, and its rows and columns.
        resources: what it has at its disposal.
    """
    return _best(indices, table, resources, _lookup, (f"MultiSlice_{type_name(table.dtype)}",))


def update(indices: int, table: TensorType, resources: Resources, combines: bool = True) -> Cost:
    """Returns the cost of changing rows of a table by index.

    Formula: each tile receives its part of the indices and all their rows, and adds those that it
    has. Where indices are split it adds to a table of zeros, and then the tiles that have the same
    part of the table receive and add up each other's. It takes no less of anything than a lookup in
    the same partition. See `slices.update_cycles`.

    Args:
        indices: number of indices.
        table: type of the table, and its rows and columns.
        resources: what it has at its disposal.
        combines: whether rows are added or the like, so that the indices can be split.
    """
    codelet = f"MultiUpdate_{type_name(table.dtype)}"
    if not combines:
        return _best(indices, table, resources, _assignment, (codelet,))
    codelets = (codelet, f"Fill_{_PARTIALS}", f"reduce_add_{_PARTIALS}")
    return _best(indices, table, resources, _update, codelets, _PARTIALS)


def _best(
    indices: int,
    table: TensorType,
    resources: Resources,
    way: Callable[[Splits, Block, Chip], _Phases],
    codelets: tuple[str, ...],
    partials: str = "",
) -> Cost:
    """Returns the cost of the cheapest partition.

    Copies of the table may take half of the bound of temporary memory. What exceeds the other half
    is done in parts one after the other. The table lies on the tiles that take part, which have no
    more of it than the bound if there are enough of them; what a tile has beyond an even share of
    all tiles is temporary memory. Of equal partitions, the one counts that spreads the table most.
    """
    if not indices:
        return FREE
    splits, limit = candidates(resources.tiles), memory_bound(resources)
    block = block_of(indices, table, splits)
    phases = way(splits, block, resources.chip)
    serial = np.ceil(phases.others / (limit / 2))
    resident = block.part * block.size / splits.indices
    compute, exchange, sync = _cycles(phases, serial, resources.chip)
    fits = np.isfinite(compute) & (phases.copied <= limit / 2)
    fits &= resident <= max(limit, resident[splits.indices == 1].min())
    cycles = np.where(fits, compute + exchange + sync, np.inf)
    at = int(np.lexsort((splits.tiles, resident, cycles))[0])
    excess = max(resident[at] - table.num_bytes / resources.tiles, 0)
    count, received = int(phases.count[at]), float(phases.received[at])
    parts = tuple((name, int(counts[at])) for name, counts in splits._asdict().items())
    return Cost(
        float(compute[at]),
        float(exchange[at]),
        float(sync[at]),
        math.ceil(phases.copied[at] + phases.others[at] / serial[at] + excess),
        codelets,
        count * vertex_state(_OPERANDS),
        count * exchange_code(received / count),
        partition=Partition(parts, int(serial[at]), partials if splits.indices[at] > 1 else ""),
    )


def _cycles(phases: _Phases, serial: Number, chip: Chip) -> tuple[Number, Number, Number]:
    """Returns the cycles of compute, exchange and sync in each partition, by parts of a phase."""
    starts = serial * phases.count
    compute = phases.compute + starts * (chip.compute_set_cycles + chip.vertex_launch_cycles)
    exchange = np.ceil(phases.received / chip.exchange_rate) + starts * chip.exchange_overhead
    return compute, exchange, starts * sync_cycles(1, chip)


def _lookup(splits: Splits, block: Block, chip: Chip) -> _Phases:
    """Prices a lookup in each partition."""
    copied = np.where(splits.indices > 1, block.part * block.size, 0)
    several = splits.rows > 1
    outside = block.indices - block.inside
    found = lookup_cycles(block.inside, outside, block.columns, block.size, chip)
    chosen = lookup_cycles(block.inside, 0, block.columns, block.size, chip)
    candidates = splits.rows * block.inside * block.columns * block.size
    return _Phases(
        found + np.where(several, chosen, 0),
        block.indices * INDEX_BYTES + copied + candidates,
        1 + several,
        copied,
        block.indices * INDEX_BYTES + block.moved + np.where(several, candidates, 0),
    )


def _update(splits: Splits, block: Block, chip: Chip) -> _Phases:
    """Prices an update in each partition."""
    least = _lookup(splits, block, chip)
    several = splits.indices > 1
    sums = np.where(several, block.part * _PARTIAL_BYTES, 0)
    outside = block.indices - block.inside
    compute = update_cycles(block.inside, outside, block.columns, block.size, chip)
    zeroed = sums / chip.store_rate
    reduced = zeroed + vertex.adding_cycles(sums, splits.indices, chip)
    given = block.indices * INDEX_BYTES + block.moved
    return _Phases(
        np.maximum(compute + reduced, least.compute),
        np.maximum(given + sums, least.received),
        np.maximum(1 + vertex.stages(splits.indices), least.count),
        2 * sums,
        np.maximum(given, least.others),
    )


def _assignment(splits: Splits, block: Block, chip: Chip) -> _Phases:
    """Prices an update that replaces rows: the last one counts, so indices are not split."""
    phases = _update(splits, block, chip)
    return phases._replace(compute=np.where(splits.indices > 1, np.inf, phases.compute))


@functools.lru_cache(maxsize=64)
def candidates(tiles: int) -> Splits:
    """Returns the candidate partitions on a number of tiles, for all tables."""
    counts = _COUNTS[_COUNTS <= tiles]
    rows, columns, indices = (grid.ravel() for grid in np.meshgrid(counts, counts, counts))
    possible = rows * columns * indices <= tiles
    return Splits(rows[possible], columns[possible], indices[possible])


def block_of(indices: int, table: TensorType, splits: Splits) -> Block:
    """Returns the block of the fullest tile; requested rows count as spread evenly.

    Args:
        indices: number of indices.
        table: type of the table, and its rows and columns.
        splits: partitions.
    """
    rows, columns = table.shape
    grain = max(_WORD // max(table.element_size, 1), 1)
    words = -(-columns // grain)
    each = -(-indices // splits.indices)
    return Block(
        -(-rows // splits.rows),
        np.minimum(-(-words // splits.columns) * grain, columns),
        each,
        -(-each // splits.rows),
        max(table.element_size, 1),
    )


# --- Rules of ops ---

# Updates in which the last index of a row counts, so that no partial sums can be made.
_REPLACING = "Update"


def table_of(whole: TensorType, rows: TensorType, count: int) -> TensorType:
    """Returns the rows of a table, and the elements of a row.

    Args:
        whole: all of the table; a handle, which has no elements, stands for as many rows as given.
        rows: the rows that are taken or changed, all together.
        count: how many these are.
    """
    columns = max(-(-rows.elements // max(count, 1)), 1)
    known = whole.elements if whole.element_size else count * columns
    return TensorType(rows.dtype, (max(-(-known // columns), 1), columns))


def _take(spec: OpSpec, resources: Resources) -> Cost:
    """Prices Gather, GatherV2 and ResourceGather: one index for each row."""
    count = spec.input(1).elements
    return lookup(count, table_of(spec.input(0), spec.output(), count), resources)


def _take_points(spec: OpSpec, resources: Resources) -> Cost:
    """Prices GatherNd: the last dimension of the indices makes up one index."""
    count = math.prod(spec.input(1).shape[:-1])
    return lookup(count, table_of(spec.input(0), spec.output(), count), resources)


class _Operands(NamedTuple):
    """Positions of the operands of an op that changes rows.

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
    """Returns a rule for ops that change rows of a tensor or variable."""

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
    """Prices an item of a list, read or written at a position known at run time."""
    items = [t for t in (*spec.outputs, *spec.inputs) if t.element_size]
    item = max(items, key=lambda tensor: tensor.num_bytes, default=TensorType("float32", ()))
    on_tile = share(item.elements, item.element_size, resources.tiles)
    cycles = slice_cycles(on_tile, item.element_size, 1, resources.chip)
    codelet = f"DynamicSlice_{type_name(item.dtype)}"
    return phase(cycles, codelet, resources.chip, received=INDEX_BYTES)


def _one_hot(spec: OpSpec, resources: Resources) -> Cost:
    """Prices OneHot: each element compares its place with the row's index."""
    result, indices = spec.output(), spec.input(0)
    on_tile = share(result.elements, result.element_size, resources.tiles)
    received = min(indices.elements, on_tile) * INDEX_BYTES
    cycles = expression_cycles(("compare", "select"), on_tile, result.dtype, resources.chip)
    codelet = f"OneHot_{type_name(result.dtype)}"
    return phase(cycles, codelet, resources.chip, received, received, label=Label.ASSUMED)


def _stitch(spec: OpSpec, resources: Resources) -> Cost:
    """Prices DynamicStitch: rows of several tensors, each with a tensor of indices."""
    half = len(spec.inputs) // 2
    count = sum(tensor.elements for tensor in spec.inputs[:half])
    result = spec.output()
    return update(count, table_of(result, result, count), resources, combines=False)


def _segments(spec: OpSpec, resources: Resources) -> Cost:
    """Prices SegmentSum and the like: rows are added to the result's row of their segment."""
    data, count = spec.input(0), spec.input(1).elements
    return update(count, table_of(spec.output(), data, count), resources)


def _scatters(prefix: str, operands: _Operands) -> dict[str, Rule]:
    """Returns the rules for all kinds of scatters with some operands."""
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
