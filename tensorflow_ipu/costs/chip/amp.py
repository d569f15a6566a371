"""Cycles of a tile's matrix unit (AMP) and of the vertices around it.

Each function takes whole numbers or NumPy arrays of them, and returns the cycles of one tile from
the start of the vertex to its end. Constants are those of poplibs' cost estimators (poplin,
`PerformanceEstimation.hpp`), published as source code. A worker issues once in as many cycles as
the tile has workers, so its cycles count that many times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip

# A whole number or an array of them.
Number = Any

# Cycles besides the weight load of each pass over a kernel position, by the number of kernel rows
# that the unit takes at once.
_PASS = {1: 15, 2: 46, 4: 60}

#: Output channels that a short convolution makes at least.
SHORT_OUTPUTS = 4


class Unit(NamedTuple):
    """The matrix unit of a tile as one pair of types uses it.

    Args:
        input_channels: that one pass adds up.
        output_channels: that one pass makes.
        macs: multiply-adds per cycle.
        weight_load: cycles to load the weights of one pass.
        half: whether inputs are float16.
        half_partials: whether sums are float16.
        workers: of the tile.
        lanes: elements of a vector instruction, for what is done without the unit.
        launch: cycles to start a vertex on all workers.
        store_rate: bytes per cycle to local memory.
        wide_lanes: elements of a vector instruction in float32, for casts of sums.
        compute_set: cycles to enter and leave a compute set.
        short_channels: input channels at most of a short convolution.
    """

    input_channels: int
    output_channels: int
    macs: Number
    weight_load: float
    half: bool
    half_partials: bool
    workers: int
    lanes: int
    launch: int
    store_rate: int
    wide_lanes: int
    compute_set: int
    short_channels: int = 0

    @property
    def position_cycles(self) -> Number:
        """Cycles for one field position: input channels x output channels / MACs per cycle."""
        return self.input_channels * self.output_channels / self.macs


def unit(chip: Chip, dtype: str, partials: str) -> Unit:
    """Returns the matrix unit for given types of inputs and sums.

    Weight load = bytes of the weights of one pass / load rate. Source: poplibs (`ConvModel.cpp`).

    Args:
        chip: the chip.
        dtype: `float8`, `float16` or `float32`, of the inputs.
        partials: of the sums, `float16` or `float32`: those of float32 products are float32, and
            those of 8-bit floats float16.

    Raises:
        ValueError: another type.
    """
    for role, name in (("inputs", dtype), ("sums", partials)):
        has = name == "float8" and role == "inputs" and chip.quarter_macs_per_cycle
        if not has and name not in ("float16", "float32"):
            raise ValueError(
                f"The matrix unit has float16 and float32 {role}; received '{name}'. Use vector "
                f"arithmetic for other types."
            )
    quarter = dtype == "float8"
    half = dtype in ("float8", "float16")
    half_partials = half and partials == "float16"
    if quarter:
        outputs, macs = chip.half_output_channels, chip.quarter_macs_per_cycle
    elif half_partials:
        outputs, macs = chip.half_output_channels, chip.half_macs_per_cycle
    elif half:
        outputs, macs = chip.mixed_output_channels, chip.mixed_macs_per_cycle
    else:
        outputs, macs = chip.float_output_channels, chip.float_macs_per_cycle
    inputs = chip.half_input_channels if half else chip.float_input_channels
    inputs = chip.quarter_input_channels if quarter else inputs
    load = inputs * outputs * (1 if quarter else 2 if half else 4) / chip.weight_load_rate
    lanes = chip.half_vector_width if half else chip.float_vector_width
    return Unit(
        inputs,
        outputs,
        macs,
        load,
        half,
        half_partials,
        chip.workers_per_tile,
        lanes,
        chip.vertex_launch_cycles,
        chip.store_rate,
        chip.float_vector_width,
        chip.compute_set_cycles,
        chip.short_convolution_channels if half and not quarter else 0,
    )


def _table_1x1(unit: Unit, zeroing: bool) -> list[int]:
    """Returns the cycles for 0 to 3 positions, without float32's to set sums to zero."""
    z = 1 if zeroing else 2
    return [20 + z, 31 + z, 40 + z, 36 + z] if unit.half else [24, 47, 46, 46]


def _worker_1x1(unit: Unit, n: np.ndarray, zeroing: bool, table: list[int]) -> Number:
    """Returns the cycles of one worker of a 1x1 vertex for n positions; up to 3 by a table.

    float16, z = 1 when sums are set to zero, else 2: 20 + z, 31 + z, 40 + z for n = 0, 1, 2, then
    36 + z + p (n - 3), with p cycles per position. float32: 24, 47, 46, then 46 + p (n - 3);
    setting sums to zero takes 2 + (channels / 2) n more. Source: poplibs.
    """
    cycles = np.array(table)[np.minimum(n, 3)] + unit.position_cycles * np.maximum(n - 3, 0)
    if unit.half or not zeroing:
        return cycles
    return cycles + (n > 0) * (2 + unit.output_channels // 2 * n)


def _inner_1x1(unit: Unit, positions: Number, zeroing: bool) -> Number:
    """Returns the cycles of all workers for one block of weights.

    workers x slowest worker, at least workers x fastest + 14; each has ceil(positions / workers)
    and the last what remains. A float16 worker keeps its state between blocks, which saves 7.
    Source: poplibs. There, two positions take longer than three; here as long, and the 14 count
    from three on: more work is never less time.
    """
    n, saved = np.asarray(positions), 7 if unit.half else 0
    table = np.minimum.accumulate(_table_1x1(unit, zeroing)[::-1])[::-1].tolist()
    each = -(-n // unit.workers)
    last = np.maximum(n - (unit.workers - 1) * each, 0)
    slowest, fastest = (
        unit.workers * (_worker_1x1(unit, share, zeroing, table) - saved) for share in (each, last)
    )
    return np.where(each < 3, slowest, np.maximum(slowest, fastest + 14))


def vertex_1x1(
    unit: Unit,
    positions: Number,
    input_groups: Number = 1,
    output_groups: Number = 1,
    conv_groups: Number = 1,
) -> Number:
    """Returns the cycles of a 1x1 vertex: positions x inputs times inputs x outputs, in groups.

    With G, I, O groups and a weight load of L cycles: 50 + 6 (7 + 3 (I G - 1)) + G {13 + (I - 1)
    [15 + O (25 + L + inner)] + 11 + O [25 + L + inner0]}, one pass for each output group; `inner0`
    sets the sums to zero. Source: poplibs. Without the cycles of the compute set.

    Args:
        unit: the matrix unit.
        positions: field positions, or rows of a matrix.
        input_groups: I, input channels / channels of the unit.
        output_groups: O, output channels / channels of the unit.
        conv_groups: G, products of that size.
    """
    inputs, outputs, groups = (np.asarray(x) for x in (input_groups, output_groups, conv_groups))
    inner, first = (_inner_1x1(unit, positions, zeroing) for zeroing in (False, True))
    rest = (inputs - 1) * (15 + outputs * (19 + 6 + unit.weight_load + inner))
    zeroed = 11 + outputs * (18 + 7 + unit.weight_load + first)
    return 50 + 6 * (7 + 3 * (inputs * groups - 1)) + groups * (13 + rest + zeroed)


def worker_nx1(unit: Unit, positions: Number, entries: Number = 1) -> Number:
    """Returns the cycles of one worker of an n x 1 vertex for one kernel position and pass.

    17, + 1 with float16 sums, + for each entry of the worklist 3 + f(n), - 9. f(n) for n = 0, 1, 2:
    17, 29, 33 in float16 and 17, 33, 44 in float32; then 34 + p (n - 3) or 45 + p (n - 3), with p
    cycles per position. Source: poplibs.

    Args:
        unit: the matrix unit.
        positions: of the worker, all entries together.
        entries: pieces of rows that these are in.
    """
    n, pieces = np.asarray(positions), np.asarray(entries)
    shortest = (17, 29, 33) if unit.half else (17, 33, 44)
    constant = 34 if unit.half else 45
    # An entry of 3 or more costs constant - 3 p besides its positions. Rows are taken as equal.
    mean = n / np.maximum(pieces, 1)
    table = np.interp(mean, [0, 1, 2, 3], [*shortest, constant])
    each = np.where(mean > 3, constant + unit.position_cycles * (mean - 3), table)
    return 17 + unit.half_partials + pieces * (3 + each) - 9


def vertex_nx1(
    unit: Unit,
    positions: Number,
    entries: Number = 1,
    kernel: Number = 1,
    input_groups: Number = 1,
    output_groups: Number = 1,
    conv_groups: Number = 1,
    rows: int = 1,
) -> Number:
    """Returns the cycles of an n x 1 vertex: kernel positions are added up on the tile.

    109 + zeroing + G (16 + I (14 + O (14 + K (L + o + 3 + workers x worker)))), with o = 15, 46 or
    60 for 1, 2 or 4 kernel rows at once and K steps over the kernel. Source: poplibs. Without the
    cycles of the compute set.

    Args:
        unit: the matrix unit.
        positions: field positions of the tile.
        entries: of the worklist of each worker.
        kernel: K, kernel positions / `rows`.
        input_groups: I, input channels / (channels of the unit / `rows`).
        output_groups: O, output channels / channels of the unit.
        conv_groups: G.
        rows: kernel rows that share the input channels of the unit: 1, 2 or 4.

    Raises:
        ValueError: another number of kernel rows.
    """
    if rows not in _PASS:
        raise ValueError(f"Expected 1, 2 or 4 kernel rows at once; received {rows}.")
    n = -(-np.asarray(positions) // unit.workers)
    once = unit.weight_load + _PASS[rows] + 3 + unit.workers * worker_nx1(unit, n, entries)
    groups = np.asarray(conv_groups)
    zeroing = groups * output_groups * zeroing_cycles(unit, positions)
    inner = 14 + np.asarray(kernel) * once
    return 109 + zeroing + groups * (16 + input_groups * (14 + output_groups * inner))


def vertex_short(
    unit: Unit,
    positions: Number,
    entries: Number = 1,
    kernel: Number = 1,
    outputs: Number = SHORT_OUTPUTS,
    conv_groups: Number = 1,
) -> Number:
    """Returns the cycles of the vertex of a short convolution, for a few input channels.

    As an n x 1 vertex of one input group, where the last group of output channels takes the cycles
    of the fours that it has. Sums of a single four need not be set to zero. Fitted to 130 vertices
    of Mk2.

    Args:
        unit: the matrix unit.
        positions: field positions of the tile.
        entries: of the worklist of each worker.
        kernel: steps over the kernel.
        outputs: output channels, in fours.
        conv_groups: products of that size.
    """
    each = -(-np.asarray(positions) // unit.workers)
    zeroing = zeroing_cycles(unit, positions)
    whole, rest = np.divmod(np.asarray(outputs), unit.output_channels)
    share = rest / unit.output_channels

    def group(share: Number, zeroing: Number) -> Number:
        part = unit._replace(macs=unit.macs / np.maximum(share, 1e-9))
        once = share * unit.weight_load + _PASS[1] + 3
        worker = unit.workers * worker_nx1(part, each, entries)
        return 14 + zeroing + np.asarray(kernel) * (once + worker)

    last = group(share, np.where(rest == SHORT_OUTPUTS, 0, share * zeroing))
    groups = whole * group(1.0, zeroing) + np.where(rest > 0, last, 0)
    return 109 + np.asarray(conv_groups) * (30 + groups)


def zeroing_cycles(unit: Unit, positions: Number) -> Number:
    """Returns the cycles to set the sums of one output group to zero: bytes / store rate."""
    size = 2 if unit.half_partials else 4
    return np.asarray(positions) * unit.output_channels * size / unit.store_rate


# --- Vector arithmetic ---

# Whole numbers or NumPy arrays of them, as in `amp`. Constants are those of poplibs' estimators.


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
