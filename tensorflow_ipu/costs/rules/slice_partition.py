"""Chooses the partition of lookups and updates of the rows of a table, and costs it.

As the planner of poplibs does: the rows of the table, its columns and the indices are split over
the tiles. The tiles of each part of the indices need a copy of the table to look up in, and add to
a table of partial sums. The cheapest of a fixed set of partitions counts. The cost of each does not
depend on the number of tiles, so more tiles never take longer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import partial_sums
from tensorflow_ipu.costs.chip.amp import Number
from tensorflow_ipu.costs.chip.slices import lookup_cycles, update_cycles
from tensorflow_ipu.costs.chip.sync import sync_cycles
from tensorflow_ipu.costs.chip.vertex import exchange_code, type_name, vertex_state
from tensorflow_ipu.costs.cost import FREE, Cost, Resources, TensorType
from tensorflow_ipu.costs.memory_bound import bound
from tensorflow_ipu.costs.partition import Partition

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
    """Partitions, one in each place of the arrays: how many parts each dimension is in."""

    rows: Number
    columns: Number
    indices: Number

    @property
    def tiles(self) -> Number:
        """Tiles that take part."""
        return self.rows * self.columns * self.indices


class Block(NamedTuple):
    """What the fullest tile has of a table and of the indices, in each partition.

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
    """The cost of the cheapest partition.

    Copies of the table may take half of the bound of temporary memory. What exceeds the other half
    is done in parts one after the other. The table lies on the tiles that take part, which have no
    more of it than the bound if there are enough of them; what a tile has beyond an even share of
    all tiles is temporary memory. Of equal partitions, the one counts that spreads the table most.
    """
    if not indices:
        return FREE
    splits, limit = candidates(resources.tiles), bound(resources)
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
    """Cycles of compute, exchange and sync in each partition, with so many parts of each phase."""
    starts = serial * phases.count
    compute = phases.compute + starts * (chip.compute_set_cycles + chip.vertex_launch_cycles)
    exchange = np.ceil(phases.received / chip.exchange_rate) + starts * chip.exchange_overhead
    return compute, exchange, starts * sync_cycles(1, chip)


def _lookup(splits: Splits, block: Block, chip: Chip) -> _Phases:
    """A lookup in each partition."""
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
    """An update in each partition."""
    least = _lookup(splits, block, chip)
    several = splits.indices > 1
    sums = np.where(several, block.part * _PARTIAL_BYTES, 0)
    outside = block.indices - block.inside
    compute = update_cycles(block.inside, outside, block.columns, block.size, chip)
    zeroed = sums / chip.store_rate
    reduced = zeroed + partial_sums.adding_cycles(sums, splits.indices, chip)
    given = block.indices * INDEX_BYTES + block.moved
    return _Phases(
        np.maximum(compute + reduced, least.compute),
        np.maximum(given + sums, least.received),
        np.maximum(1 + partial_sums.stages(splits.indices), least.count),
        2 * sums,
        np.maximum(given, least.others),
    )


def _assignment(splits: Splits, block: Block, chip: Chip) -> _Phases:
    """An update that replaces rows: the last one counts, so the indices are not split."""
    phases = _update(splits, block, chip)
    return phases._replace(compute=np.where(splits.indices > 1, np.inf, phases.compute))


@functools.lru_cache(maxsize=64)
def candidates(tiles: int) -> Splits:
    """Returns the partitions that are tried on a number of tiles, whatever the table."""
    counts = _COUNTS[_COUNTS <= tiles]
    rows, columns, indices = (grid.ravel() for grid in np.meshgrid(counts, counts, counts))
    possible = rows * columns * indices <= tiles
    return Splits(rows[possible], columns[possible], indices[possible])


def block_of(indices: int, table: TensorType, splits: Splits) -> Block:
    """Returns what the fullest tile has; rows asked for are taken as spread evenly.

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
