"""Candidate splits of a product, and the block of the fullest tile in each."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.chip.amp import Number, Unit
from tensorflow_ipu.costs.contractions.contraction import Product

# Ways to split output channels, input channels and groups; positions take the tiles that remain.
_OUTPUT_SPLITS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 46, 64, 92, 128, 184, 368, 736, 1472)
_INPUT_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 128, 256)
_GROUP_SPLITS = (
    *(2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 184, 192, 256, 368, 384, 512, 736, 1024),
    1472,
)


class Splits(NamedTuple):
    """Partitions, one in each place of the arrays: how many parts each dimension is in."""

    positions: Number
    inputs: Number
    outputs: Number
    groups: Number


class Block(NamedTuple):
    """The part of a product on the fullest tile, in each partition.

    Args:
        positions: field positions.
        input_groups: groups of input channels, as the matrix unit takes them.
        output_groups: groups of output channels.
        groups: products.
        first: bytes of the first operand.
        second: bytes of the second operand.
        sums: bytes of partial sums.
    """

    positions: Number
    input_groups: Number
    output_groups: Number
    groups: Number
    first: Number
    second: Number
    sums: Number

    @property
    def temporary(self) -> Number:
        """Bytes needed during the computation: received operands and sums."""
        return self.first + self.second + self.sums


@functools.lru_cache(maxsize=64)
def candidates(tiles: int, grouped: bool = False) -> Splits:
    """Returns the partitions to try on a number of tiles, for any dimensions.

    Args:
        tiles: tiles that compute.
        grouped: whether there are several groups, which are split too.

    Raises:
        ValueError: there is no tile.
    """
    if tiles < 1:
        raise ValueError(f"Expected 1 or more tiles that compute; received {tiles}.")
    rows = [
        (tiles // (inputs * outputs * groups), inputs, outputs, groups)
        for groups in (1, *(_GROUP_SPLITS if grouped else ()))
        for inputs in _INPUT_SPLITS
        for outputs in _OUTPUT_SPLITS
        if inputs * outputs * groups <= tiles
    ]
    return Splits(*np.array(rows, dtype=np.int64).T)


def block_of(product: Product, unit: Unit, splits: Splits) -> Block:
    """Returns the fullest tile's block: each dimension's whole groups, divided and rounded up."""
    positions = parts(product.positions, splits.positions)
    groups = parts(product.groups, splits.groups)
    input_groups = parts(parts(product.inputs, unit.input_channels), splits.inputs)
    output_groups = parts(parts(product.outputs, unit.output_channels), splits.outputs)
    inputs = np.minimum(input_groups * unit.input_channels, product.inputs)
    outputs = np.minimum(output_groups * unit.output_channels, product.outputs)
    return Block(
        positions,
        input_groups,
        output_groups,
        groups,
        groups * product.input_elements(positions, inputs) * product.size,
        groups * product.kernel * inputs * outputs * product.size,
        groups * product.result_elements(positions, outputs) * product.partial_size,
    )


def parts(total: int, parts: Number) -> Number:
    """Returns the largest of some equal parts: `ceil(total / parts)`."""
    return -(-total // parts)
