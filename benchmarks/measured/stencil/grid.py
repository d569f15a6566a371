"""How the stencil's program divides an image: over IPUs, tiles and workers.

Source: `StructuredGridUtils.hpp` of github.com/thorbenlouw/lbm-graphcore, as of its experiments.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# More cells than this do not go on one IPU.
_CELLS_OF_AN_IPU = 2000 * 1400


class Part(NamedTuple):
    """A rectangle of cells.

    Args:
        rows: its height.
        columns: its width.
    """

    rows: int
    columns: int

    @property
    def cells(self) -> int:
        """Cells in it."""
        return self.rows * self.columns


class IpuParts(NamedTuple):
    """Part and border of one IPU.

    Args:
        part: of the IPU that has most.
        border: cells of the border between two IPUs; 0 for one IPU.
        pieces: contiguous pieces of it.
    """

    part: Part
    border: int
    pieces: int


def over_ipus(image: Part, ipus: int) -> IpuParts | None:
    """Divides an image over IPUs, by rows or columns, whichever leave less over.

    Args:
        image: the image.
        ipus: number of IPUs.

    Returns:
        The largest part; None if an IPU would have more cells than the program allows.
    """
    by_rows = Part(-(-image.rows // ipus), image.columns)
    by_columns = Part(image.rows, -(-image.columns // ipus))
    rows_first = image.rows % ipus / image.rows < image.columns % ipus / image.columns
    for part in (by_rows, by_columns) if rows_first else (by_columns, by_rows):
        if part.cells <= _CELLS_OF_AN_IPU:
            border = 0 if ipus == 1 else part.columns if part is by_rows else part.rows
            return IpuParts(part, border, min(border, 1) if part is by_rows else border)
    return None


def over_tiles(part: Part, tiles: int, least: Part) -> list[Part]:
    """Divides the part of an IPU over its tiles.

    Args:
        part: what the IPU has.
        tiles: of the IPU.
        least: rows and columns that a tile has at least.

    Returns:
        The shapes that tiles have, each once.
    """
    if part.cells < least.cells:
        return [part]
    if part.columns < least.columns:
        return [
            Part(n, part.columns) for n in _even(part.rows, min(tiles, part.rows // least.rows))
        ]
    if part.rows < least.rows:
        count = min(tiles, part.columns // least.columns)
        return [Part(part.rows, n) for n in _even(part.columns, count)]
    ratio = max(least.columns, part.columns) / max(least.rows, part.rows)
    across = min(tiles, part.columns // least.columns, math.ceil(math.sqrt(tiles * ratio)))
    down = min(tiles, part.rows // least.rows, tiles // across)
    return [
        Part(rows, columns)
        for rows in _even(part.rows, down)
        for columns in _even(part.columns, across)
    ]


def _even(total: int, count: int) -> list[int]:
    """Returns the distinct sizes of an even division into N parts, the largest first."""
    each, left = divmod(total, max(count, 1))
    return [each + 1, each] if left else [each]


def over_workers(tile: Part, workers: int) -> tuple[Part, int]:
    """Divides the part of a tile over its workers, by rows or columns.

    Args:
        tile: what the tile has.
        workers: of the tile.

    Returns:
        The largest part, and how many workers have one.
    """
    by_rows = tile.rows % workers / tile.rows <= tile.columns % workers / tile.columns
    used = min(tile.rows if by_rows else tile.columns, workers)
    if by_rows:
        return Part(-(-tile.rows // used), tile.columns), used
    return Part(tile.rows, -(-tile.columns // used)), used
