"""Cost of one phase of a program: exchange, then vertices on the workers of every tile; slices.

Source of the constants: graphcore/poplibs, the estimators of vertices and of tile mappings.
"""

from __future__ import annotations

import math

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.amp import Number
from tensorflow_ipu.costs.chip.exchange import exchange_cycles, sync_cycles
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label

# The least that a linear tile mapping gives a tile, in bytes.
LEAST_BYTES = 128

# A vertex: its own word and, for each operand, a pointer and a length. Poplar packs some of them.
_VERTEX_BYTES, _OPERAND_BYTES = 4, 8

# An exchange: three instructions of 4 bytes for each block received. More than 39 blocks are never
# counted: an exchange of all tiles goes by rows and columns of them (39 x 39 > 1,472).
_BLOCK_CODE_BYTES, _MOST_BLOCKS = 12, 39


def share(elements: int, element_size: int, tiles: int) -> int:
    """Returns the elements on the fullest tile when a tensor is spread over the tiles.

    Formula: `ceil(elements / tiles)` in whole 8-byte grains, and at least 128 bytes. Source: the
    linear mapping of graphcore/poplibs.

    Args:
        elements: elements of the tensor.
        element_size: bytes of one.
        tiles: tiles that it may use.
    """
    size = max(element_size, 1)
    grain = max(8 // size, 1)
    blocks = -(-elements // grain)
    even = -(-blocks // tiles) * grain
    return min(max(even, LEAST_BYTES // size), elements)


def supervised(worker_cycles: float, chip: Chip) -> float:
    """Returns the tile's cycles for a vertex that a supervisor starts on all workers.

    Formula: `launch + workers * cycles of the slowest worker`: workers take turns.

    Args:
        worker_cycles: cycles of the slowest worker, counted in its own turns.
        chip: the chip.
    """
    return chip.vertex_launch_cycles + chip.workers_per_tile * worker_cycles


def per_worker(elements: int, chip: Chip) -> int:
    """Returns the elements that the busiest worker of a tile has: `ceil(elements / workers)`."""
    return -(-elements // chip.workers_per_tile)


def phase(
    tile_cycles: float,
    codelet: str,
    chip: Chip,
    received: float = 0,
    temporary: float = 0,
    operands: int = 3,
    label: Label = Label.MODELLED,
) -> Cost:
    """Returns the cost of one phase: sync, exchange if there is any, and a compute set.

    Args:
        tile_cycles: cycles of the vertices of the slowest tile.
        codelet: name of the vertex type; empty when nothing is computed.
        chip: the chip.
        received: bytes that the busiest tile receives before.
        temporary: bytes on the fullest tile that are needed only meanwhile.
        operands: pointers that the vertex has.
        label: how far the cycles can be trusted.
    """
    return Cost(
        compute=tile_cycles + (chip.compute_set_cycles if codelet else 0),
        exchange=exchange_cycles(received, chip),
        sync=sync_cycles(1, chip),
        temporary=math.ceil(temporary),
        codelets=(codelet,) if codelet else (),
        vertex_state=vertex_state(operands) if codelet else 0,
        exchange_code=exchange_code(received),
        label=label,
    )


def vertex_state(operands: int) -> int:
    """Returns the bytes of a vertex: its own word, and pointer and length of each operand.

    Args:
        operands: pointers that the vertex has.
    """
    return _VERTEX_BYTES + _OPERAND_BYTES * operands


def exchange_code(received: float) -> int:
    """Returns the bytes of exchange code on a tile that receives some bytes.

    Formula: 12 bytes for each block of 128 bytes, for 39 blocks at most. Source: 4 bytes per
    instruction (planner of graphcore/poplibs), 3 instructions per block (third party).

    Args:
        received: bytes that the tile receives.
    """
    return _BLOCK_CODE_BYTES * min(math.ceil(received / LEAST_BYTES), _MOST_BLOCKS)


def type_name(dtype: str) -> str:
    """Returns the name of an element type as it stands in names of vertices."""
    return {"float16": "half", "float32": "float", "int32": "int"}.get(dtype, dtype)


# --- Partial sums ---

# Whole numbers or NumPy arrays of them, as in `amp`. Constants are those of poplibs' planner.

# A reduction: 33 for the supervisor, 20 + 10 per worker.
_CYCLES, _WORKER_CYCLES = 33, 30

# Reductions of so many partial sums and more take a second and a third stage.
_TWO_STAGES, _THREE_STAGES = 16, 125


def stages(partials: Number) -> Number:
    """Returns the stages of a reduction: none of 1 partial sum, two from 16 on, three from 125.

    Args:
        partials: tiles that have a partial sum of the same result.
    """
    count = np.asarray(partials)
    return (count > 1) * (1 + (count >= _TWO_STAGES) + (count >= _THREE_STAGES))


def adding_cycles(num_bytes: Number, partials: Number, chip: Chip) -> Number:
    """Returns the cycles of a tile to add up partial sums, including its compute sets.

    Each tile adds its part of the sums of all others, 16 bytes per cycle; each stage has a start.

    Args:
        num_bytes: partial sums that the tile receives.
        partials: tiles that have a partial sum of the same result.
        chip: the chip.
    """
    start = _CYCLES + chip.workers_per_tile * _WORKER_CYCLES + chip.compute_set_cycles
    count = stages(partials)
    return np.where(count > 0, num_bytes / chip.load_rate + count * start, 0)


# --- Slices, lookups and updates of rows ---

# Whole numbers or NumPy arrays of them, as in `amp`. Constants are those of `popops` in
# graphcore/poplibs.

# Dynamic slice: cycles besides the workers, of a worker, of a slice, and of one of its vectors.
_SLICE, _SLICE_WORKER, _EACH_SLICE, _SLICE_VECTOR = 25, 39, 24, 2

# Multi-slice: cycles of a worker, of an index whose row the tile has, and of another index.
_LOOKUP_WORKER, _INSIDE, _OUTSIDE = 30, 19, 8

# Elements and cycles of a vector of it by element size.
_LOOKUP_VECTORS = {8: (1, 2), 4: (2, 2), 2: (2, 2), 1: (4, 3)}

# Multi-update-add: cycles of a worker, of an element of a row the tile has, and of another index.
_UPDATE_WORKER, _UPDATE_ATOM, _UPDATE_OUTSIDE = 12, 3, 5


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


def lookup_cycles(
    inside: Number, outside: Number, columns: Number, size: int, chip: Chip
) -> Number:
    """Returns the tile's cycles of a multi-slice.

    Formula: `workers x (30 + inside x (19 + vectors x cycles) + outside x 8)`. The workers share
    the indices, each with whole rows, or the vectors of each row, whichever takes less.

    Args:
        inside: indices whose rows the tile has.
        outside: other indices, which it looks at in vain.
        columns: elements of a row that the tile has.
        size: bytes of one.
        chip: the chip.
    """
    workers = chip.workers_per_tile

    def worker(found: Number, missed: Number, elements: Number) -> Number:
        width, cycles = _LOOKUP_VECTORS.get(size, (2, 2))
        row = _INSIDE + -(-elements // width) * cycles
        return _LOOKUP_WORKER + found * row + missed * _OUTSIDE

    by_index = worker(-(-inside // workers), -(-outside // workers), columns)
    by_element = worker(inside, outside, -(-columns // workers))
    return workers * np.minimum(by_index, by_element)


def update_cycles(
    inside: Number, outside: Number, columns: Number, size: int, chip: Chip
) -> Number:
    """Returns the tile's cycles of a multi-update-add, which adds to rows.

    Formula: `launch + workers x (12 + inside x 3 n + outside x 5)`: each worker has n elements of
    every row and goes through all indices, so that no two add to the same. It takes no less than a
    lookup of the same rows, which it has to find, load and store as well; what it takes to find
    them is not in the library's figures.

    Args:
        inside: indices whose rows the tile has.
        outside: other indices, which it looks at in vain.
        columns: elements of a row that the tile has.
        size: bytes of one.
        chip: the chip.
    """
    each = -(-columns // chip.workers_per_tile)
    worker = _UPDATE_WORKER + _UPDATE_ATOM * inside * each + _UPDATE_OUTSIDE * outside
    added = chip.vertex_launch_cycles + chip.workers_per_tile * worker
    return np.maximum(added, lookup_cycles(inside, outside, columns, size, chip))
