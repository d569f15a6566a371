"""Cycles of multiply-adds in a tile's vector arithmetic, without the matrix unit.

Whole numbers or NumPy arrays of them, as in `amp`. Constants are those of poplibs' estimators.
"""

from __future__ import annotations

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.amp import Number, Unit


def hmac(unit: Unit, outputs: Number, length: Number) -> Number:
    """Returns the cycles of dot products: workers x outputs each x (8 + length / lanes).

    Source: poplibs (`HMAC` method of convolutions).

    Args:
        unit: the matrix unit, which is not used.
        outputs: sums on the tile.
        length: products of each sum.
    """
    each = -(-np.asarray(outputs) // unit.workers)
    return unit.launch + unit.workers * each * (8 + -(-length // unit.lanes))


def vmac(chip: Chip, vectors: Number, length: Number) -> Number:
    """Returns the cycles of sums over vectors of channels: workers x vectors each x (8 + length).

    What depthwise convolutions use: one lane for each channel. Source: poplibs (`VMAC` method),
    with the overhead of `HMAC`.

    Args:
        chip: the chip.
        vectors: sums on the tile, a vector of channels each.
        length: products of each sum, the kernel's positions.
    """
    each = -(-np.asarray(vectors) // chip.workers_per_tile)
    return chip.vertex_launch_cycles + chip.workers_per_tile * each * (8 + np.asarray(length))


def outer_product(groups: Number, width: Number, channels: Number) -> Number:
    """Returns the cycles of outer products: 25 + groups x (11 + width x (6 + (channels - 6) / 2)).

    Source: poplibs (`OUTER_PRODUCT` method).

    Args:
        groups: products on the tile.
        width: elements of the first vector.
        channels: elements of the second vector.
    """
    inner = 6 + np.maximum(np.asarray(channels) - 6, 0) / 2
    return 25 + np.asarray(groups) * (11 + np.asarray(width) * inner)


def vector_macs(chip: Chip, count: Number) -> Number:
    """Returns the cycles of multiply-adds in vectors: workers x ceil(count / workers) x 14.

    Integer operations take about 7 cycles for each element, and these are two. Source: poplibs
    (popops cycle estimators).

    Args:
        chip: the chip.
        count: multiply-adds on the tile.
    """
    each = -(-np.asarray(count) // chip.workers_per_tile)
    return chip.vertex_launch_cycles + chip.workers_per_tile * each * 14
