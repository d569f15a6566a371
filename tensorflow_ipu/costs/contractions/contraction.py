"""`Product`: a matrix product or convolution on tiles, its blocks, their cycles and memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.chip.amp import Number, Unit
from tensorflow_ipu.costs.cost import Resources, UnknownCostError
from tensorflow_ipu.costs.releases import CURRENT, Release
from tensorflow_ipu.costs.rules.data_movement import REARRANGEMENT_CYCLES, cycles_per_byte

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


# Cycles of a rearrangement for each word that is stored: 5 for 4 words. Source: poplibs' planner.
CYCLES_PER_WORD = 5 / 4

# A cast: 19 per worker besides one cycle per vector. Source: poplibs.
_CAST_WORKER_CYCLES = 19

# Bytes that move together in a rearrangement of whole positions, and of small pieces of them.
_WORD, _PIECE = 8, 4

# Copies of a whole operand to the layout of an op. Fitted to elementwise programs of Peng et al.
# (ICPE 2024), which copy operands and results: 15 rows, 2 or 3 copies each.
_COPY_CYCLES, _COPY_CYCLES_PER_BYTE = 700, 1.12

# Kernel rows that can share the input channels of the matrix unit in float16.
_ROWS_AT_ONCE = (1, 2, 4)


def vertex_cycles(
    product: Product,
    unit: Unit,
    splits: Splits,
    block: Block,
    release: Release = CURRENT,
) -> Number:
    """Returns the cycles of the vertices of each partition, by the best method.

    With a kernel: n x 1 vertices (in float16 with 1, 2 or 4 kernel rows at once), or 1x1 vertices
    after the kernel's inputs were copied side by side. Without: 1x1 vertices or vector arithmetic.
    Measured 3 x 3 convolutions of 4 channels on Mk1 take 16 cycles per position in float16 and 72
    in float32 (lbm-graphcore, effect-of-mem-on-convolution): 9 x 8, so no rows at once.
    """
    if product.kernel == 1:
        return _without_kernel(product, unit, splits, block)
    cycles = with_kernel(product, unit, splits, block, release)
    return cycles + cast_cycles(product, unit, splits, block)


def with_kernel(
    product: Product, unit: Unit, splits: Splits, block: Block, release: Release
) -> Number:
    """Returns the cycles of the vertices of a convolution, without casts of its sums.

    Args:
        product: with a kernel of several positions.
        unit: the matrix unit.
        splits: the partitions.
        block: the part of each tile.
        release: says how vertices fill the unit.
    """
    methods = [
        _kernel_rows(product, unit, splits, block, rows) for rows in _rows_at_once(unit, release)
    ]
    methods.append(_side_by_side(product, unit, splits, block, release))
    if product.inputs <= unit.short_channels and not product.gathered:
        methods.append(_short(product, unit, splits, block))
    return functools.reduce(np.minimum, methods)


def cast_cycles(product: Product, unit: Unit, splits: Splits, block: Block) -> Number:
    """Returns the cycles to bring sums of the matrix unit to the type of the result.

    19 for each worker and one for each vector; none where the sums of several tiles are added up,
    which writes the type of the result. That of 8-bit floats is float16. Source: poplibs.
    """
    if product.partials == ("float16" if product.dtype == "float8" else product.dtype):
        return 0.0
    vectors = block.sums / product.partial_size / unit.wide_lanes
    each = vectors + unit.workers * _CAST_WORKER_CYCLES + unit.compute_set
    return np.where(splits.inputs > 1, 0.0, each)


def _without_kernel(product: Product, unit: Unit, splits: Splits, block: Block) -> Number:
    """Returns the cycles of 1x1 vertices, dot products or, without sums, outer products.

    The latter two have their sums in registers, and write them in the type of the result.
    """
    one = amp.vertex_1x1(
        unit, block.positions, block.input_groups, block.output_groups, block.groups
    )
    one = one + cast_cycles(product, unit, splits, block)
    inputs = np.minimum(block.input_groups * unit.input_channels, product.inputs)
    outputs = np.minimum(block.output_groups * unit.output_channels, product.outputs)
    cycles = np.minimum(one, amp.hmac(unit, block.groups * block.positions * outputs, inputs))
    if product.inputs > 1:
        return cycles
    return np.minimum(cycles, amp.outer_product(block.groups, block.positions, outputs))


def _kernel_rows(product: Product, unit: Unit, splits: Splits, block: Block, rows: int) -> Number:
    """Returns the cycles of n x 1 vertices; kernel rows at once share the input channels."""
    input_groups = parts(product.inputs, unit.input_channels // rows)
    height = product.windows[-2].size if len(product.windows) > 1 else product.windows[0].size
    steps = parts(height, rows)
    return amp.vertex_nx1(
        unit,
        block.positions,
        parts(parts(product.rows, splits.positions), unit.workers),
        product.kernel // height * steps,
        parts(input_groups, splits.inputs),
        block.output_groups,
        block.groups,
        rows,
    )


def _short(product: Product, unit: Unit, splits: Splits, block: Block) -> Number:
    """Returns the cycles of a short convolution, with kernel positions as input channels.

    A step takes 4 kernel columns, and as many rows as fill the unit if all columns are in it.
    """
    height = product.windows[-2].size if len(product.windows) > 1 else 1
    width = product.windows[-1].size
    planes = product.kernel // (height * width)
    channels = 1 << (product.inputs - 1).bit_length()
    columns = unit.input_channels // unit.short_channels
    rows = unit.short_channels // channels if width <= columns else 1
    outputs = np.minimum(
        block.output_groups * unit.output_channels,
        parts(product.outputs, amp.SHORT_OUTPUTS) * amp.SHORT_OUTPUTS,
    )
    return amp.vertex_short(
        unit,
        block.positions,
        parts(parts(product.rows, splits.positions), unit.workers),
        planes * parts(width, columns) * parts(height, rows),
        outputs,
        block.groups,
    )


def _side_by_side(
    product: Product, unit: Unit, splits: Splits, block: Block, release: Release
) -> Number:
    """Returns the cycles of 1x1 vertices on copies of each kernel position's inputs."""
    inputs = product.inputs * product.kernel
    groups = parts(parts(inputs, unit.input_channels), splits.inputs)
    copied = block.groups * block.positions * groups * unit.input_channels * product.size
    vertices = amp.vertex_1x1(unit, block.positions, groups, block.output_groups, block.groups)
    small = product.inputs * product.size < release.smallest_piece
    rate = cycles_per_byte(_PIECE) if small else CYCLES_PER_WORD / unit.store_rate
    return vertices + copied * rate


def _rows_at_once(unit: Unit, release: Release) -> tuple[int, ...]:
    """Returns the numbers of kernel rows that can share the input channels of the unit."""
    return _ROWS_AT_ONCE if unit.half and release.fills_unit else _ROWS_AT_ONCE[:1]


def padded_channels(product: Product, unit: Unit, release: Release) -> int:
    """Returns the input channels of a group with the zeros that fill the passes of the unit.

    With a kernel in float16 they are a multiple of a fourth of the unit's: rows share them.

    Args:
        product: the product.
        unit: the matrix unit.
        release: says whether kernel rows share the channels.
    """
    rows = _rows_at_once(unit, release)[-1] if product.kernel > 1 else 1
    granule = unit.input_channels // rows
    return -(-product.inputs // granule) * granule


def rearrangement_cycles(
    product: Product, unit: Unit, block: Block, parts: Number, resources: Resources
) -> Number:
    """Returns the cycles of a tile to bring the first operand into the unit's order.

    Each tile does it with what it has received: 587 + k x bytes, as in other rearrangements. Or it
    is done before, once for all tiles, if that is cheaper: 700 + 1.12 x bytes / tiles, measured.
    Both have zeros for missing channels. Pieces of channels that are smaller than the release's
    whole words move by 4 bytes. An operand that has the layout allocated for the op needs none,
    unless the release cannot share the unit's channels and has to put zeros in. Filter gradients
    bring all of both operands into another order.

    Args:
        product: the product.
        unit: the matrix unit.
        block: the part of each tile.
        parts: serial parts, each of which receives operands.
        resources: what the op has at its disposal.
    """
    release = resources.release
    channels = padded_channels(product, unit, release)
    padded = channels > product.inputs and not release.fills_unit
    if product.gathered or (resources.allocated and not padded):
        return 0.0
    inputs = np.minimum(block.input_groups * unit.input_channels, channels)
    copied = block.groups * product.input_elements(block.positions, inputs) * product.size
    small = product.inputs * product.size < release.smallest_piece
    each = REARRANGEMENT_CYCLES + cycles_per_byte(_PIECE if small else _WORD) * copied
    on_tiles = parts * each
    if padded:
        return on_tiles
    positions = product.stored or product.positions
    whole = product.groups * positions * channels * product.size
    before = _COPY_CYCLES + _COPY_CYCLES_PER_BYTE * whole / resources.tiles
    return np.minimum(on_tiles, before)


def least_bytes(product: Product, unit: Unit, block: Block, release: Release = CURRENT) -> Number:
    """Returns the bytes of a block for one group of input and of output channels at a time.

    Input channels that a pass of the matrix unit takes are there, if need be as zeros.
    """
    inputs = _pass_channels(product, unit, release)
    first = product.input_elements(block.positions, inputs) * product.size
    second = product.kernel * inputs * unit.output_channels * product.size
    sums = product.result_elements(block.positions, unit.output_channels) * product.partial_size
    return first + second + sums


def _pass_channels(product: Product, unit: Unit, release: Release) -> int:
    """Returns the input channels of a pass, filled with zeros to the width of the unit."""
    return min(padded_channels(product, unit, release), unit.input_channels)


def one_by_one(product: Product, unit: Unit, block: Block, release: Release = CURRENT) -> Number:
    """Returns the cycles of n x 1 vertices with one position for each worker at a time.

    The inputs of each such piece are brought together first, with zeros for missing channels.
    """
    once = amp.vertex_nx1(
        unit,
        unit.workers,
        1,
        product.kernel,
        block.input_groups,
        block.output_groups,
        block.groups,
    )
    channels = _pass_channels(product, unit, release)
    window = product.input_elements(unit.workers, channels) * product.size
    gathered = REARRANGEMENT_CYCLES + cycles_per_byte(_WORD) * window
    return parts(block.positions, unit.workers) * (once + gathered)
