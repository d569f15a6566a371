"""`Product`: a matrix product or convolution on tiles, its splits and its largest block."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.amp import Number, Unit
from tensorflow_ipu.costs.cost import UnknownCostError

# Bytes of an element, by what the arithmetic is done in.
SIZES = {"float8": 1, "float16": 2, "float32": 4}


class Window(NamedTuple):
    """One spatial dimension of a convolution.

    Args:
        stride: input positions between two field positions.
        size: kernel positions.
        dilation: input positions between two kernel positions.
    """

    stride: int = 1
    size: int = 1
    dilation: float = 1

    def inputs(self, field: Number) -> Number:
        """Returns the input positions that some field positions in a row need.

        Formula: `(field - 1) * stride + (size - 1) * dilation + 1`, at most `field * size`.
        """
        span = (field - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return np.minimum(span, field * self.size)


class Product(NamedTuple):
    """For each group and kernel position: positions x inputs times inputs x outputs, added up.

    Args:
        dtype: of the operands, `float8`, `float16` or `float32`.
        partials: of the sums, `float16` or `float32`.
        positions: field positions of the whole batch, or rows of a matrix.
        inputs: input channels of a group: what is added up.
        outputs: output channels of a group.
        groups: products of that size.
        windows: spatial dimensions; none for matrices.
        rows: rows of the field that the positions are in.
        stored: positions of the input of the whole batch, 0 if it is `positions`.
        gathered: whether what is added up are field positions (a filter's gradient): `positions`
            are then kernel positions of input channels, and `windows` are about `inputs`.
        rearranged: elements whose order must be changed first.
        spread: result positions for each field position (an input's gradient), 1 otherwise.
    """

    dtype: str
    partials: str
    positions: int
    inputs: int
    outputs: int
    groups: int = 1
    windows: tuple[Window, ...] = ()
    rows: int = 1
    stored: int = 0
    gathered: int = 0
    rearranged: int = 0
    spread: float = 1.0

    @property
    def kernel(self) -> int:
        """Kernel positions of each field position."""
        return 1 if self.gathered else math.prod(window.size for window in self.windows)

    @property
    def size(self) -> int:
        """Bytes of an element of the operands."""
        return SIZES[self.dtype]

    @property
    def partial_size(self) -> int:
        """Bytes of a sum."""
        return SIZES[self.partials]

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        return self.groups * self.positions * self.kernel * self.inputs * self.outputs

    def input_elements(self, positions: Number, inputs: Number) -> Number:
        """Elements of the first operand that a block of the product needs.

        Blocks are taken as squares (cubes) of the field, with the halo that the kernel adds.

        Args:
            positions: field positions of the block.
            inputs: input channels of the block.
        """
        if self.gathered:
            block = area(self.windows, inputs, self.stored or self.inputs)
            return np.minimum(positions * inputs, block * np.minimum(positions, self.gathered))
        return area(self.windows, positions, self.stored or self.positions) * inputs

    def result_elements(self, positions: Number, outputs: Number) -> Number:
        """Elements of the result that a block of the product makes."""
        return positions * self.spread * outputs


def area(windows: Sequence[Window], field: Number, most: int) -> Number:
    """Returns the input positions for a square block of field positions, at most all there are."""
    if not windows:
        return field
    side = np.asarray(field) ** (1 / len(windows))
    positions = math.prod(window.inputs(side) for window in windows)
    return np.minimum(np.maximum(positions, 1), most)


def arithmetic(dtype: str, partials: str, chip: Chip) -> tuple[str, str] | None:
    """Returns the types of operands and sums that the matrix unit uses, None if it has none.

    Args:
        dtype: element type of the op. bfloat16 is computed in float32, 8-bit floats in float16 on
            chips that do not have them.
        partials: type of sums of float16 products that was asked for.
        chip: the chip.

    Raises:
        UnknownCostError: there are no such sums.
    """
    if partials not in ("float16", "float32"):
        raise UnknownCostError(
            f"Expected sums of products of type 'float16' or 'float32'; received '{partials}'."
        )
    if dtype in ("float32", "bfloat16"):
        return "float32", "float32"
    if dtype.startswith("float8") and chip.quarter_macs_per_cycle:
        return "float8", "float16"
    if dtype == "float16" or dtype.startswith("float8"):
        return "float16", partials
    return None


# --- Splits and blocks ---

# Ways to split output channels, input channels and groups; positions take the tiles that remain.
_OUTPUT_SPLITS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 46, 64, 92, 128, 184, 368, 736, 1472)

_INPUT_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 128, 256)

_GROUP_SPLITS = (
    *(2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 184, 192, 256, 368, 384, 512, 736, 1024),
    1472,
)


class Splits(NamedTuple):
    """Partitions as arrays: the number of parts of each dimension, one partition a place."""

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
        """Temporary bytes of its computation: received operands and sums."""
        return self.first + self.second + self.sums


@functools.lru_cache(maxsize=64)
def candidates(tiles: int, grouped: bool = False) -> Splits:
    """Returns the candidate partitions on a number of tiles, for all dimensions.

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
    """Returns the block of the fullest tile: each dimension's groups, divided and rounded up."""
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
