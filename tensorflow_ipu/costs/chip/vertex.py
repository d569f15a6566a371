"""Cost of one phase of a program: exchange, then vertices on the workers of every tile.

Source of the constants: graphcore/poplibs, the estimators of vertices and of tile mappings.
"""

from __future__ import annotations

import math

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import exchange_cycles
from tensorflow_ipu.costs.chip.sync import sync_cycles
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label

# The least that a linear tile mapping gives a tile, in bytes.
LEAST_BYTES = 128
# A vertex: its own word and, for each operand, a pointer and a length. Poplar packs some of them.
_VERTEX_BYTES, _OPERAND_BYTES = 4, 8
# An exchange: three instructions of 4 bytes for each block received. More than 39 blocks are never
# counted: an exchange of all tiles goes by rows and columns of them (39 x 39 > 1,472).
_BLOCK_CODE_BYTES, _MOST_BLOCKS = 12, 39


def share(elements: int, element_size: int, tiles: int) -> int:
    """Returns the elements on the fullest tile when a tensor is spread over the tiles.

    Formula: `ceil(elements / tiles)` in whole 8-byte grains, and at least 128 bytes. Source: the
    linear mapping of graphcore/poplibs.

    Args:
        elements: elements of the tensor.
        element_size: bytes of one.
        tiles: tiles that it may use.
    """
    size = max(element_size, 1)
    grain = max(8 // size, 1)
    blocks = -(-elements // grain)
    even = -(-blocks // tiles) * grain
    return min(max(even, LEAST_BYTES // size), elements)


def supervised(worker_cycles: float, chip: Chip) -> float:
    """Returns the tile's cycles for a vertex that a supervisor starts on all workers.

    Formula: `launch + workers * cycles of the slowest worker`: workers take turns.

    Args:
        worker_cycles: cycles of the slowest worker, counted in its own turns.
        chip: the chip.
    """
    return chip.vertex_launch_cycles + chip.workers_per_tile * worker_cycles


def per_worker(elements: int, chip: Chip) -> int:
    """Returns the elements that the busiest worker of a tile has: `ceil(elements / workers)`."""
    return -(-elements // chip.workers_per_tile)


def phase(
    tile_cycles: float,
    codelet: str,
    chip: Chip,
    received: float = 0,
    temporary: float = 0,
    operands: int = 3,
    label: Label = Label.MODELLED,
) -> Cost:
    """Returns the cost of one phase: sync, exchange if there is any, and a compute set.

    Args:
        tile_cycles: cycles of the vertices of the slowest tile.
        codelet: name of the vertex type; empty when nothing is computed.
        chip: the chip.
        received: bytes that the busiest tile receives before.
        temporary: bytes on the fullest tile that are needed only meanwhile.
        operands: pointers that the vertex has.
        label: how far the cycles can be trusted.
    """
    return Cost(
        compute=tile_cycles + (chip.compute_set_cycles if codelet else 0),
        exchange=exchange_cycles(received, chip),
        sync=sync_cycles(1, chip),
        temporary=math.ceil(temporary),
        codelets=(codelet,) if codelet else (),
        vertex_state=vertex_state(operands) if codelet else 0,
        exchange_code=exchange_code(received),
        label=label,
    )


def vertex_state(operands: int) -> int:
    """Returns the bytes of a vertex: its own word, and pointer and length of each operand.

    Args:
        operands: pointers that the vertex has.
    """
    return _VERTEX_BYTES + _OPERAND_BYTES * operands


def exchange_code(received: float) -> int:
    """Returns the bytes of exchange code on a tile that receives some bytes.

    Formula: 12 bytes for each block of 128 bytes, for 39 blocks at most. Source: 4 bytes per
    instruction (planner of graphcore/poplibs), 3 instructions per block (third party).

    Args:
        received: bytes that the tile receives.
    """
    return _BLOCK_CODE_BYTES * min(math.ceil(received / LEAST_BYTES), _MOST_BLOCKS)


def type_name(dtype: str) -> str:
    """Returns the name of an element type as it stands in names of vertices."""
    return {"float16": "half", "float32": "float", "int32": "int"}.get(dtype, dtype)
