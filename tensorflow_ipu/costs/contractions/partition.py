"""Partitions of products over the tiles: the cheapest one, with its cost and memory.

As the planner of poplibs does: positions, output channels, input channels (whose partial sums are
then reduced) and groups are split over the tiles. Each tile receives its part of both operands,
computes, and takes part in the reduction. The cheapest of a fixed set of partitions counts. The set
depends only on the number of tiles, and the cost of each partition rises with each dimension, so
the cost of a product does too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import amp, vertex
from tensorflow_ipu.costs.chip.amp import Number, Unit
from tensorflow_ipu.costs.chip.vertex import exchange_code
from tensorflow_ipu.costs.contractions import contraction
from tensorflow_ipu.costs.contractions.contraction import (
    Block,
    Product,
    Splits,
    block_of,
    candidates,
)
from tensorflow_ipu.costs.cost import Cost, Partition, Resources, memory_bound
from tensorflow_ipu.costs.label import Label, label_of
from tensorflow_ipu.costs.rules.data_movement import cycles_per_byte

# --- Memory on each tile, in closed form ---

# The memory of the cheapest partition would jump with the number of tiles. What is here is that of
# blocks with sides as equal as the dimensions allow. It never rises with the number of tiles.

# State of a vertex: fields and worklists; a pointer for each block of operands and result. Assumed.
_VERTEX_BYTES, _POINTER_BYTES = 64, 4


class Sides(NamedTuple):
    """The block of a product on each tile of a balanced partition.

    Args:
        groups: products.
        positions: field positions.
        inputs: input channels, at least as many as the matrix unit takes, if there are.
        outputs: output channels, at least as many as the matrix unit makes.
    """

    groups: float
    positions: float
    inputs: float
    outputs: float


def level(volume: float, sides: Sequence[float]) -> float:
    """Returns x such that the product of `min(side, x)` over all sides is `volume`.

    It rises with the volume, and so does each `min(side, x)`.

    Args:
        volume: at most the product of all sides.
        sides: the dimensions.
    """
    rest = volume
    ordered = sorted(sides)
    for index, side in enumerate(ordered):
        equal = rest ** (1 / (len(ordered) - index))
        if equal <= side:
            return equal
        rest /= side
    return ordered[-1]


def sides(product: Product, unit: Unit, tiles: int) -> Sides:
    """Returns the block of a balanced partition: groups are split first, then all else evenly.

    Args:
        product: the product.
        unit: the matrix unit.
        tiles: tiles that compute.
    """
    inputs = -(-product.inputs // unit.input_channels) * unit.input_channels
    outputs = -(-product.outputs // unit.output_channels) * unit.output_channels
    groups = max(product.groups / tiles, 1.0)
    whole = (product.positions, inputs, outputs)
    volume = math.prod(whole) * min(product.groups / tiles, 1.0)
    side = level(volume, whole)
    return Sides(
        groups,
        max(min(side, product.positions), 1.0),
        min(max(side, unit.input_channels), product.inputs),
        max(min(side, outputs), unit.output_channels),
    )


def operands(product: Product, block: Sides) -> tuple[float, float, float]:
    """Returns the bytes of both operands and of the sums of a block."""
    first = block.groups * float(product.input_elements(block.positions, block.inputs))
    second = block.groups * product.kernel * block.inputs * block.outputs
    sums = block.groups * float(product.result_elements(block.positions, block.outputs))
    return first * product.size, second * product.size, sums * product.partial_size


def with_memory(cycles: Cost, product: Product, unit: Unit, resources: Resources) -> Cost:
    """Returns a cost with its memory: temporaries, vertices, exchange code.

    Temporary = both operands and the sums, at most the bound. State = 64 bytes and 4 for each block
    of operands and result. Exchange code: see `vertex.exchange_code`.

    Args:
        cycles: the cost without memory.
        product: the product.
        unit: the matrix unit.
        resources: what it has at its disposal.
    """
    block = sides(product, unit, resources.tiles)
    sizes = operands(product, block)
    inputs = math.ceil(block.inputs / unit.input_channels)
    outputs = math.ceil(block.outputs / unit.output_channels)
    blocks = math.ceil(block.groups) * (inputs + outputs + inputs * outputs)
    return dataclasses.replace(
        cycles,
        temporary=int(min(math.ceil(sum(sizes)), memory_bound(resources))),
        codelets=codelets(product),
        vertex_state=_VERTEX_BYTES + _POINTER_BYTES * blocks,
        exchange_code=sum(exchange_code(size) for size in sizes),
    )


def codelets(product: Product) -> tuple[str, ...]:
    """Returns the vertex types of a product, which do not depend on the number of tiles."""
    kind = "1x1" if product.kernel == 1 else "nx1"
    names = [f"amp_{kind}_{product.dtype}_{product.partials}", f"reduce_add_{product.partials}"]
    if product.partials != product.dtype:
        names.append(f"cast_{product.partials}_{product.dtype}")
    if product.rearranged:
        names.append(f"transpose_{product.dtype}")
    return tuple(names)


# --- Choice of the split ---

# Batched products in serial parts: the results that a tile has at once, and the copies of a result
# in each part. Fitted to 54 attention scores of Peng et al. (ICPE 2024) on Mk2.
_RESULTS, _COPIES = 3, 2

# Bytes that move together in such a copy.
_WORD = 8


def best(product: Product, resources: Resources) -> Cost:
    """Returns the cost of a product with the cheapest partition.

    Cycles = sum of rearrangement, exchange of the operands, vertices, and reduction or cast, times
    the slowdown of the release, and its launch. If the
    temporary memory of a partition exceeds the bound, it is done in `ceil(temporary / bound)` parts
    one after the other. Each has its own sync and start of vertices, and receives both operands: to
    hold an s-th at a time, a tile splits both, and sees each part of one with each of the other.
    Source: poplibs' planner, and the data movement of blocked products.

    If one group of channels at a time exceeds the bound, so that parts must be of the field, it is
    done with as little memory as can be: see `_serial`.

    Results of batched products in serial parts are put together: see `result_cycles`.

    What one pass of the matrix unit adds up may have float16 sums though wider ones are asked for:
    they are rounded once, when they are written, as the result would be. Not so in a release that
    does not fill the unit.

    Args:
        product: the product.
        resources: what it has at its disposal.
    """
    ways = [product]
    single = product.kernel == 1 and product.inputs <= resources.chip.half_input_channels
    mixed = (product.dtype, product.partials) == ("float16", "float32")
    if single and mixed and resources.release.fills_unit:
        ways.append(product._replace(partials="float16"))
    return cheapest([_best(way, resources) for way in ways])


def _best(product: Product, resources: Resources) -> Cost:
    """Returns the cost of a product with the cheapest partition, with sums of its type."""
    chip, splits = resources.chip, candidates(resources.tiles, product.groups > 1)
    unit = amp.unit(chip, product.dtype, product.partials)
    block = block_of(product, unit, splits)
    parts, starts, vertices = _serial(product, unit, splits, block, resources)
    received = operand_cycles(splits, block, chip)
    after, sent, phases = _sums(splits, block, unit, resources)
    setup = starts * (chip.compute_set_cycles + chip.vertex_launch_cycles)
    moved = contraction.rearrangement_cycles(product, unit, block, parts, resources)
    moved = moved + result_cycles(product, parts, resources) + rearrangement(product, resources)
    compute = vertices + setup + after + moved
    exchange = parts * received + sent + (starts + phases) * chip.exchange_overhead
    sync = (2 * starts + phases) * chip.sync_cycles
    chosen = int(np.argmin(compute + exchange + sync))
    release = resources.release
    cycles = Cost(
        float(compute[chosen]) * release.slowdown + release.launch_cycles,
        float(exchange[chosen]) * release.slowdown,
        float(sync[chosen]) * release.slowdown,
        label=_label(unit, chip),
        partition=_partition(product, unit, block, chosen, int(starts[chosen])),
    )
    return with_memory(cycles, product, unit, resources)


def _partition(product: Product, unit: Unit, block: Block, chosen: int, serial: int) -> Partition:
    """Returns the partition at a place of the arrays, without empty parts."""
    sizes = (
        ("positions", product.positions, block.positions),
        ("inputs", -(-product.inputs // unit.input_channels), block.input_groups),
        ("outputs", -(-product.outputs // unit.output_channels), block.output_groups),
        ("groups", product.groups, block.groups),
    )
    parts = tuple((name, -(-total // int(of_tile[chosen]))) for name, total, of_tile in sizes)
    return Partition(parts, serial, product.partials)


def _label(unit: Unit, chip: Chip) -> Label:
    """Returns the label of the cycles: the matrix unit's, whose rate they rest on.

    They rest less on the rate at which it loads weights, uncertain on most chips. A load takes 32
    cycles at most, and the vertex 180 or more besides for each, even with a single position.
    """
    kind = "half" if unit.half_partials else "mixed" if unit.half else "float"
    if unit.input_channels == chip.quarter_input_channels:
        kind = "quarter"
    return label_of(chip, f"{kind}_macs_per_cycle")


def cheapest(costs: Sequence[Cost]) -> Cost:
    """Returns the cost of the cheapest of several ways to do the same.

    Memory is the least of all ways: which one is cheapest may change with the number of tiles, and
    memory should not rise with it. For the same reason codelets are those of all ways.

    Args:
        costs: those of the ways, at least one.
    """
    return dataclasses.replace(
        min(costs, key=lambda cost: cost.cycles),
        temporary=min(cost.temporary for cost in costs),
        vertex_state=min(cost.vertex_state for cost in costs),
        exchange_code=min(cost.exchange_code for cost in costs),
        codelets=tuple(dict.fromkeys(name for cost in costs for name in cost.codelets)),
    )


def _serial(
    product: Product, unit: Unit, splits: Splits, block: Block, resources: Resources
) -> tuple[Number, Number, Number]:
    """Returns the receptions of operands, the starts of vertices, and the cycles of the vertices.

    A part of channels is a run of the same vertices. The planner has no parts of the field: where
    these would be needed it plans again for least memory. That is taken as one position for each
    worker at a time. Measured on Mk1, convolutions of 4 channels become 27 to 36 times slower there
    (lbm-graphcore, effect-of-mem-on-convolution).
    """
    limit = memory_bound(resources)
    held = _held(product, block)
    parts = np.ceil(held / limit)
    release = resources.release
    vertices = contraction.vertex_cycles(product, unit, splits, block, release)
    little = contraction.least_bytes(product, unit, block, release) > limit
    if not little.any():
        return parts, parts, vertices
    steps = np.where(little, -(-block.positions // unit.workers), 0)
    slow = np.where(little, contraction.one_by_one(product, unit, block, release), 0)
    return parts, np.maximum(parts, steps), np.maximum(vertices, slow)


def operand_cycles(splits: Splits, block: Block, chip: Chip) -> Number:
    """Returns the cycles to receive both operands.

    Bytes / exchange rate. The first operand comes at twice the rate where output channels are in an
    even number of parts: two tiles of one bus then take the same. Operands that are in one part
    over the tiles are there already. Source: poplibs' planner.
    """
    tiles = splits.positions * splits.inputs * splits.outputs * splits.groups
    shared = np.where(splits.outputs % chip.tiles_per_bus == 0, chip.tiles_per_bus, 1)
    first = block.first * (1 - 1 / tiles) / (chip.exchange_rate * shared)
    second = block.second * (1 - 1 / splits.positions) / chip.exchange_rate
    return first + second


def _sums(
    splits: Splits, block: Block, unit: Unit, resources: Resources
) -> tuple[Number, Number, Number]:
    """Returns the cycles to add and to exchange partial sums, and the number of phases.

    Each tile receives its part of the sums of all others. A release may take more for each sum.
    """
    chip, release = resources.chip, resources.release
    sent = block.sums * (1 - 1 / splits.inputs) / chip.exchange_rate
    stages = vertex.stages(splits.inputs)
    added = vertex.adding_cycles(block.sums, splits.inputs, chip)
    elements = block.sums / (2 if unit.half_partials else 4)
    added = added + np.where(stages > 0, release.sum_cycles * elements, 0)
    return added, sent, stages


def _held(product: Product, block: Block) -> Number:
    """Returns the bytes of a tile that its serial parts divide: the operands and the sums.

    Of batched products it is at least 3 times the result instead of the sums: sums, part, and the
    whole that the parts make.
    """
    if not _is_batched(product):
        return block.temporary
    result = block.sums / product.partial_size * product.size
    return block.first + block.second + np.maximum(block.sums, _RESULTS * result)


def _is_batched(product: Product) -> bool:
    """Returns whether it is several products of matrices."""
    return product.groups > 1 and not product.windows


def result_cycles(product: Product, parts: Number, resources: Resources) -> Number:
    """Returns the cycles to put the result of batched products together from its serial parts.

    Each of s parts rearranges the result of the s - 1 others, there and back. Throughputs of
    attention fall with the batch from there on: from 40 to 20 and 9 TFLOP/s on Mk2.

    Args:
        product: the product; one of a single group needs none.
        parts: serial parts.
        resources: what it has at its disposal.
    """
    if not _is_batched(product):
        return 0.0
    result = product.groups * product.result_elements(product.positions, product.outputs)
    on_tile = result * product.size / resources.tiles
    return parts * (parts - 1) * _COPIES * cycles_per_byte(_WORD) * on_tile


def rearrangement(product: Product, resources: Resources) -> float:
    """Returns the cycles to bring operands into another order, spread over all tiles.

    Bytes x 5/4 / store rate, and bytes / exchange rate. Source: poplibs' planner.
    """
    chip = resources.chip
    share = -(-product.rearranged // resources.tiles) * product.size
    if not share:
        return 0.0
    once = chip.compute_set_cycles + chip.exchange_overhead + chip.sync_cycles
    return share * (contraction.CYCLES_PER_WORD / chip.store_rate + 1 / chip.exchange_rate) + once
