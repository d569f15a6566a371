"""Cycles of the vertices of slices: of one slice, of lookups of rows, and of updates of rows.

Whole numbers or NumPy arrays of them, as in `amp`. Constants are those of `popops` in
graphcore/poplibs.
"""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.amp import Number
from tensorflow_ipu.costs.chip.vertex import per_worker

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
