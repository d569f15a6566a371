"""Elements on each tile of the results of a program's ops."""

from __future__ import annotations

from tensorflow_ipu.costs.cost import TensorType
from tensorflow_ipu.planner.memory import tile_mapping


def tile_counts(dtype: str, shape: tuple[int, ...], tiles: int) -> list[tuple[int, int]]:
    """Returns the tiles that have a part of a result, each with its number of elements.

    Args:
        dtype: type of the result.
        shape: its dimensions.
        tiles: tiles that compute.
    """
    return [
        (interval.tile, interval.elements)
        for interval in tile_mapping.linear(TensorType(dtype, shape), tiles)
    ]
