"""Memory of a split product on each tile, in closed form.

The memory of the cheapest partition would jump with the number of tiles. What is here is that of
blocks with sides as equal as the dimensions allow. It never rises with the number of tiles.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu.costs.chip.amp import Unit
from tensorflow_ipu.costs.chip.vertex import exchange_code
from tensorflow_ipu.costs.contractions.contraction import Product
from tensorflow_ipu.costs.cost import Cost, Resources
from tensorflow_ipu.costs.memory_bound import bound

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
        temporary=int(min(math.ceil(sum(sizes)), bound(resources))),
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
