"""`Contraction`: a matrix product or convolution as the tiles see it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.amp import Number
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
        """Kernel positions that are gone through for each field position."""
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
