"""Mappings of the bytes of tensors to tiles.

Tensors are cut into blocks of 128 B, the least that the library puts on a tile; grains of vector
instructions (8 B) divide that. The last block of a tensor may be smaller.

* Residents are laid out by list scheduling: tensors in fixed order, block by block, each block on
  the tile that has least. Then the tiles are numbered from the fullest one. Taking a block away,
  making one smaller or adding a tile never raises the fullest tile: the sorted loads of the tiles
  stay below the former ones, block by block.
* Transients are spread evenly from tile 0: of `n` blocks on `T` tiles the first `n mod T` tiles
  have `n div T + 1`. So tile 0 has most of everything, and it is the fullest tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.cost import TensorType

# The same on each chip.
BLOCK = chips.DEFAULT.mapping_block


class Interval(NamedTuple):
    """A part of a tensor on a tile.

    Args:
        tile: the tile.
        elements: number of elements of the flattened tensor, after the elements of the tiles
            before.
    """

    tile: int
    elements: int


class Share(NamedTuple):
    """Bytes of an evenly spread buffer on each tile.

    Args:
        full: on each tile that has a share.
        extra: more on each of the first `first` tiles.
        first: number of tiles with one block more.
        last: tile with the partial block, which is `missing` smaller.
        missing: bytes that the last block lacks.
    """

    full: int
    extra: int
    first: int
    last: int
    missing: int


def linear(tensor: TensorType, tiles: int) -> tuple[Interval, ...]:
    """Returns the mapping of a transient tensor.

    Args:
        tensor: type and shape.
        tiles: number of tiles.

    Returns:
        Tiles from 0 in order, with the elements of each. Empty for a tensor without memory.
    """
    share = spread(tensor.num_bytes, tiles)
    size = max(tensor.element_size, 1)
    counts = share_bytes(share, tiles) // size
    return tuple(Interval(tile, int(n)) for tile, n in enumerate(counts.tolist()) if n)


def spread(num_bytes: int, tiles: int) -> Share:
    """Returns the shares of a transient buffer, spread over tiles from tile 0.

    Args:
        num_bytes: its size.
        tiles: number of tiles.
    """
    blocks = -(-num_bytes // BLOCK)
    rounds, first = divmod(blocks, tiles)
    last = min(blocks, tiles) - 1
    return Share(rounds * BLOCK, BLOCK, first, last, blocks * BLOCK - num_bytes)


def share_bytes(share: Share, tiles: int) -> np.ndarray:
    """Returns the bytes on each tile, int64.

    Args:
        share: the spread of the buffer.
        tiles: number of tiles.
    """
    found = np.full(tiles, share.full, np.int64)
    found[: share.first] += share.extra
    if share.last >= 0:
        found[share.last] -= share.missing
    return found


def fullest(num_bytes: np.ndarray, tiles: int) -> np.ndarray:
    """Returns the bytes on tile 0 of buffers that are spread evenly from it, int64.

    Args:
        num_bytes: their sizes, int64.
        tiles: number of tiles.
    """
    blocks = -(-num_bytes // BLOCK)
    rounds = -(-blocks // tiles) * BLOCK
    # The partial block is on tile 0 only where there is no other tile.
    alone = (blocks <= 1) | (tiles == 1)
    found: np.ndarray = np.where(alone, num_bytes, rounds)
    return found


class Layout:
    """Layout of resident buffers on tiles, one after the other.

    Args:
        tiles: number of tiles.
    """

    def __init__(self, tiles: int) -> None:
        self._loads = np.zeros(tiles, np.int64)
        self._placed: list[np.ndarray] = []

    def add(self, num_bytes: int) -> int:
        """Places a buffer; returns its number.

        Args:
            num_bytes: its size.
        """
        tiles = len(self._loads)
        blocks, rest = divmod(num_bytes, BLOCK)
        rounds, left = divmod(blocks, tiles)
        counts = np.full(tiles, rounds * BLOCK, np.int64)
        if left:
            # Loads differ by no more than a block, so each round gives one block to each tile.
            counts[np.argsort(self._loads, kind="stable")[:left]] += BLOCK
        if rest:
            counts[int((self._loads + counts).argmin())] += rest
        self._loads += counts
        self._placed.append(counts)
        return len(self._placed) - 1

    def order(self) -> np.ndarray:
        """Returns the tiles from the fullest, int64: the numbering that `tiles` uses."""
        return np.argsort(-self._loads, kind="stable")

    def tiles(self, index: int, order: np.ndarray) -> np.ndarray:
        """Returns the bytes of a placed buffer on each tile, int64.

        Args:
            index: number of the buffer.
            order: the result of `order`.
        """
        return self._placed[index][order]

    def total(self, indices: Iterable[int], order: np.ndarray) -> np.ndarray:
        """Returns the bytes of several placed buffers on each tile, int64.

        Args:
            indices: their numbers.
            order: the result of `order`.
        """
        found = np.zeros(len(self._loads), np.int64)
        for index in indices:
            found += self._placed[index]
        return found[order]


def always_live(
    tensors: Sequence[TensorType], tiles: int, shares: Sequence[int] | None = None
) -> list[tuple[Interval, ...]]:
    """Returns the mappings of resident tensors, in their order.

    Args:
        tensors: types and shapes.
        tiles: number of tiles.
        shares: bytes that are kept of each, all of them if not given.
    """
    layout = Layout(tiles)
    sizes = [t.num_bytes for t in tensors] if shares is None else list(shares)
    numbers = [layout.add(size) for size in sizes]
    order = layout.order()
    return [
        intervals(layout.tiles(number, order), max(tensor.element_size, 1))
        for number, tensor in zip(numbers, tensors)
    ]


def intervals(counts: np.ndarray, size: int) -> tuple[Interval, ...]:
    """Returns the tiles that have elements, with the number of elements.

    Args:
        counts: bytes on each tile.
        size: bytes of an element.
    """
    found = np.flatnonzero(counts)
    return tuple(
        Interval(tile, math.ceil(n / size)) for tile, n in zip(found.tolist(), counts[found])
    )
