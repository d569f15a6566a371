"""The peak of an IPU's transient memory, and its tile."""

from __future__ import annotations

import dataclasses

import numpy as np

from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.memory.tile_mapping import BLOCK

# At how many ops the peaks of tiles are looked for. Few programs need that many: an op matters only
# while tile 0 has more there than the emptiest tile has at its peak so far.
_CANDIDATES = 96


@dataclasses.dataclass(frozen=True)
class Transients:
    """Transient memory of one IPU, by live range.

    Attributes:
        start: First position of each stretch, int64.
        stop: Last position.
        num_bytes: Bytes of each stretch, int64.
        category: Number of the category of each, int64.
        temporary: Bytes that the op at each position needs besides on a tile, int64.
        temporary_tiles: On how many tiles, from tile 0, int64.
        tiles: Tiles that compute.
    """

    start: np.ndarray
    stop: np.ndarray
    num_bytes: np.ndarray
    category: np.ndarray
    temporary: np.ndarray
    temporary_tiles: np.ndarray
    tiles: int

    def curve(self) -> np.ndarray:
        """Returns the bytes on all tiles at each position, int64."""
        return self._sum(self.num_bytes) + self.temporary * self.temporary_tiles

    def worst(self) -> np.ndarray:
        """Returns the bytes on tile 0, the fullest tile, at each position, int64."""
        return self._sum(tile_mapping.fullest(self.num_bytes, self.tiles)) + self.temporary

    def live(self, position: int) -> np.ndarray:
        """Returns the indices of the stretches that a position is in.

        Args:
            position: the position.
        """
        return np.flatnonzero((self.start <= position) & (position <= self.stop))

    def at(self, position: int, categories: int) -> np.ndarray:
        """Returns the bytes at a position by category and tile, int64; temporaries come last.

        Args:
            position: the position.
            categories: number of categories besides temporaries.
        """
        live = self.live(position)
        found = np.zeros((categories + 1, self.tiles), np.int64)
        for category in np.unique(self.category[live]).tolist():
            sizes = self.num_bytes[live[self.category[live] == category]]
            found[category] = _on_tiles(sizes, self.tiles)
        found[categories, : self.temporary_tiles[position]] = self.temporary[position]
        return found

    def peaks(self, worst: np.ndarray, points: np.ndarray, categories: int) -> np.ndarray:
        """Returns the bytes by category and tile at each tile's own peak.

        Exact for tile 0. For other tiles, the positions with most bytes on tile 0 are examined.

        Args:
            worst: the result of `worst`.
            points: positions of the IPU's ops.
            categories: number of categories besides temporaries.
        """
        if not len(points):
            return np.zeros((categories + 1, self.tiles), np.int64)
        # Ops with the same bytes on tile 0 and on all tiles have, as a rule, the same live tensors.
        amounts = np.stack([-worst[points], -self.curve()[points]], axis=1)
        _, distinct = np.unique(amounts, axis=0, return_index=True)
        candidates = points[distinct[:_CANDIDATES]].tolist()
        best = self.at(candidates[0], categories)
        total = best.sum(axis=0)
        for position in candidates[1:]:
            if worst[position] <= total.min():
                break
            other = self.at(position, categories)
            more = other.sum(axis=0) > total
            best[:, more] = other[:, more]
            total = best.sum(axis=0)
        return best

    def _sum(self, amounts: np.ndarray) -> np.ndarray:
        change = np.zeros(len(self.temporary) + 1, np.int64)
        np.add.at(change, self.start, amounts)
        np.subtract.at(change, self.stop + 1, amounts)
        found: np.ndarray = np.cumsum(change[:-1])
        return found


def _on_tiles(sizes: np.ndarray, tiles: int) -> np.ndarray:
    """Returns the bytes of several evenly spread buffers on each tile."""
    blocks = -(-sizes // BLOCK)
    rounds, first = np.divmod(blocks, tiles)
    ends = np.bincount(first, minlength=tiles + 1)[: tiles + 1]
    # A tile has one more block of each buffer whose remainder reaches beyond it.
    more = len(sizes) - np.cumsum(ends)[:tiles]
    some = blocks > 0
    last = np.minimum(blocks, tiles)[some] - 1
    missing = np.bincount(last, weights=(blocks * BLOCK - sizes)[some], minlength=tiles)
    found: np.ndarray = (rounds.sum() + more) * BLOCK - missing.astype(np.int64)
    return found
