"""Cost of products without the matrix unit: depthwise convolutions and types it lacks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.chip.vertex import exchange_code, phase, share
from tensorflow_ipu.costs.contractions.contraction import SIZES, area
from tensorflow_ipu.costs.contractions.conv_geometry import Geometry, windows
from tensorflow_ipu.costs.cost import Cost, Partition, Resources, TensorType, memory_bound

# Ways to split vectors of channels over the tiles; field positions take the tiles that remain.
_VECTOR_SPLITS = (1, 2, 4, 8, 16, 32, 64, 92, 128, 184, 368, 736, 1472)
# State of a vertex: fields, worklists, pointers. Assumed.
_VERTEX_BYTES = 64


def multiply(outputs: int, length: int, dtype: str, resources: Resources) -> Cost:
    """Returns the cost of sums of products of a type that the matrix unit does not have.

    Each tile has `ceil(outputs / tiles)` sums and receives what it takes for a square block.

    Args:
        outputs: number of sums.
        length: products of each.
        dtype: element type.
        resources: what the op has at its disposal.
    """
    chip = resources.chip
    size = max(TensorType(dtype, ()).element_size, 1)
    each = share(outputs, size, resources.tiles)
    received = 2 * math.sqrt(each) * length * size
    temporary = int(min(received, memory_bound(resources)))
    cycles = float(amp.vector_macs(chip, each * length))
    return phase(cycles, f"multiply_{dtype}", chip, received, temporary)


def depthwise(shape: Geometry, types: tuple[str, str], resources: Resources) -> Cost:
    """Returns the cost of a depthwise convolution, one vector lane for each channel.

    Vectors of channels and field positions are split over the tiles, in the cheapest of a fixed set
    of ways. Each tile receives the inputs of its positions. The sums of a filter's gradient are
    then added up over the tiles that share a vector of channels. Cycles: see `lanes.vmac`.

    Args:
        shape: the convolution.
        types: of operands and sums.
        resources: what it has at its disposal.
    """
    chip = resources.chip
    widths = {chip.float_vector_width: 0}
    if types[0] == "float16":
        widths[chip.half_vector_width] = 0
    ways = [_of_vectors(shape, types, width, resources) for width in widths]
    # What is the least may change with the number of tiles, and memory should not rise with it.
    return dataclasses.replace(
        min(ways, key=lambda cost: cost.cycles),
        temporary=max(cost.temporary for cost in ways),
        exchange_code=max(cost.exchange_code for cost in ways),
    )


def _of_vectors(shape: Geometry, types: tuple[str, str], width: int, resources: Resources) -> Cost:
    """Prices a depthwise convolution with a number of channels to a vector: all lanes, or half."""
    chip, (dtype, partials) = resources.chip, types
    vectors = -(-shape.groups * shape.outputs // width)
    across = np.array([split for split in _VECTOR_SPLITS if split <= resources.tiles])
    along = resources.tiles // across
    each, positions = -(-vectors // across), -(-shape.positions // along)
    received = each * width * SIZES[dtype] * area(windows(shape), positions, shape.stored)
    if shape.kind == "filter":
        sums = each * width * shape.taps * SIZES[partials] * (1 - 1 / along)
        compute = amp.vmac(chip, each * shape.taps, positions) + sums / chip.load_rate
        # The gradient of the result comes too.
        received = received + each * width * SIZES[dtype] * positions + sums
    else:
        compute = amp.vmac(chip, each * positions, shape.taps)
    exchange = received / chip.exchange_rate
    chosen = int(np.argmin(compute + exchange))
    temporary = _temporary(shape, width, SIZES[dtype], resources)
    cost = _phases(shape, float(compute[chosen]), float(exchange[chosen]), temporary, types, chip)
    parts = (
        ("channels", -(-vectors // int(each[chosen]))),
        ("positions", -(-shape.positions // int(positions[chosen]))),
    )
    added = partials if shape.kind == "filter" else ""
    return dataclasses.replace(cost, partition=Partition(parts, partials=added))


def _phases(
    shape: Geometry,
    compute: float,
    exchange: float,
    temporary: int,
    types: tuple[str, str],
    chip: Chip,
) -> Cost:
    """Returns the cost with each phase's overhead; a filter's gradient has a reduction, too."""
    phases = 2 if shape.kind == "filter" else 1
    return Cost(
        compute + phases * (chip.compute_set_cycles + chip.vertex_launch_cycles),
        exchange + phases * chip.exchange_overhead,
        phases * chip.sync_cycles,
        temporary,
        (f"vmac_{types[0]}", f"reduce_add_{types[1]}"),
        _VERTEX_BYTES,
        exchange_code(temporary),
    )


def _temporary(shape: Geometry, width: int, size: int, resources: Resources) -> int:
    """Returns the bytes on each tile: inputs of its share of the field, at most the bound.

    A tile has one vector of channels, and more where there are more vectors than tiles.
    """
    vectors = -(-shape.groups * shape.outputs // width)
    field = max(vectors * shape.positions / resources.tiles, 1.0)
    block = float(area(windows(shape), min(field, shape.positions), shape.stored))
    natural = block * max(field / shape.positions, 1.0) * width * size
    return int(min(math.ceil(natural), memory_bound(resources)))
