"""Cycles of one step of the blur, by phase: compute, copy, exchange and wait.

A step makes of every cell, four channels, the weighted sum of it and its eight neighbors. There are
two programs. The later one copies what a worker needs, with its borders, to one place, and its
result back (`GaussianBlurLowLevel.cpp`). In the earlier one vertices read image and borders where
they are, so only what is not in one piece is copied (`LowLevelStencil.cpp`).
"""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import exchange_cycles, link_cycles, sync_cycles
from tensorflow_ipu.costs.chip.vertex import supervised
from tensorflow_ipu.costs.rules.data_movement import REARRANGEMENT_CYCLES, cycles_per_byte

from . import grid
from .grid import Part

CHANNELS = 4
# Instructions for each vector of channels: loads of nine neighbors, eight additions and three
# multiplications of nw + ne + sw + se, m, and e + w + s + n, and the store.
_LOADS, _ARITHMETIC, _STORES = 9, 11, 1
# For each cell: to the next cell in each of the three rows of the image and in the result, to
# count, and to jump.
_LOOP = 6
# The earlier program is compiled without -O3: it adds up the index in each of the three rows anew
# for each vector.
_INDICES = 3
# Cycles to copy a contiguous piece besides its bytes: fitted to the 11 rows of the phases `pre` and
# `post` of exchange-vs-compute.csv.
PIECE_CYCLES = 7
# Cycles for each piece of a border between IPUs besides its bytes: fitted to the 67 rows of whole
# programs on 2 to 16 IPUs.
BORDER_PIECE_CYCLES = 6
# Bytes that stay next to each other in what the library rearranges: a cell is 8 bytes or more.
_WHOLE = 8


class Data(NamedTuple):
    """How a program holds a cell.

    Args:
        vector: channels in one instruction.
        channel_bytes: bytes of a channel.
    """

    vector: int
    channel_bytes: int

    @property
    def cell(self) -> int:
        """Bytes of a cell."""
        return CHANNELS * self.channel_bytes


#: By the name of the program's option `--data-type`.
DATA = {"float": Data(1, 4), "float2": Data(2, 4), "half4": Data(4, 2)}


class Step(NamedTuple):
    """Cycles of a step by phase.

    Args:
        compute: of the vertices.
        before: copies of what they need.
        after: copies of their results.
        exchange: of borders between tiles.
        links: of borders between IPUs.
        sync: waits.
        pieces: that are copied before and after the vertices, one after the other.
    """

    compute: float
    before: float
    after: float
    exchange: float
    links: float
    sync: float
    pieces: tuple[int, int] = (0, 0)

    @property
    def cycles(self) -> float:
        """All of them."""
        return self.compute + self.before + self.after + self.exchange + self.links + self.sync


class Program(NamedTuple):
    """A program of the experiments.

    Args:
        image: its cells.
        ipus: on which it runs.
        least: rows and columns that a tile has at least.
        data: how it holds cells.
        earlier: whether it is the earlier program.
    """

    image: Part
    ipus: int
    least: Part
    data: Data
    earlier: bool = False


def step(program: Program, chip: Chip) -> Step | None:
    """Returns the cycles of a step; None if the image is too large for the IPUs.

    Args:
        program: the program.
        chip: the chip.
    """
    found = grid.over_ipus(program.image, program.ipus)
    if found is None:
        return None
    tiles = grid.over_tiles(found.part, chip.tiles, program.least)
    links = link_cycles(found.border * program.data.cell, chip)
    links += BORDER_PIECE_CYCLES * found.pieces
    sync = sync_cycles(program.ipus, chip)
    steps = [_on_tile(tile, program, chip)._replace(links=links, sync=sync) for tile in tiles]
    return max(steps, key=lambda one: one.cycles)


def _on_tile(tile: Part, program: Program, chip: Chip) -> Step:
    """Cycles of a tile, without those between IPUs and waits."""
    worker, workers = grid.over_workers(tile, chip.workers_per_tile)
    data = program.data
    if program.earlier:
        pieces = (0, 0)
        before = after = _rearranged(tile, worker, data, chip)
    else:
        pieces = _pieces(tile, worker, workers)
        needed = workers * (worker.rows + 2) * (worker.columns + 2)
        before = _copy(pieces[0], needed * data.cell, chip)
        after = _copy(pieces[1], tile.cells * data.cell, chip)
    compute = supervised(worker.cells * instructions(data, program.earlier), chip)
    exchange = exchange_cycles(_borders(tile, worker, workers) * data.cell, chip)
    compute += chip.compute_set_cycles
    return Step(compute, before, after, exchange, 0.0, 0.0, pieces)


def instructions(data: Data, earlier: bool = False) -> int:
    """Returns the instructions of a worker for a cell.

    Args:
        data: how the program holds cells.
        earlier: whether it is the earlier program.
    """
    of_vector = _LOADS + _ARITHMETIC + _STORES + (_INDICES if earlier else 0)
    return CHANNELS // data.vector * of_vector + _LOOP


def _borders(tile: Part, worker: Part, workers: int) -> int:
    """Cells that a tile receives from others: the borders of its workers, corners for each."""
    by_rows = worker.columns == tile.columns
    if by_rows:
        return 2 * (tile.columns + workers * (worker.rows + 2))
    return 2 * (workers * (worker.columns + 2) + tile.rows)


def _pieces(tile: Part, worker: Part, workers: int) -> tuple[int, int]:
    """Contiguous pieces that the later program copies before and after its vertices.

    A row of what a worker needs is in one piece, but for the neighbor at each end that is on
    another tile.
    """
    by_rows = worker.columns == tile.columns
    return workers * (worker.rows + 2) * (3 if by_rows else 1), workers * worker.rows


def _copy(pieces: int, num_bytes: int, chip: Chip) -> float:
    """Cycles to copy pieces that are aligned to 8 bytes, as the vertex demands."""
    return REARRANGEMENT_CYCLES + PIECE_CYCLES * pieces + num_bytes / chip.store_rate


def _rearranged(tile: Part, worker: Part, data: Data, chip: Chip) -> float:
    """Returns the cycles of the earlier program to rearrange non-contiguous rows."""
    if worker.columns == tile.columns:
        return 0.0
    return REARRANGEMENT_CYCLES + cycles_per_byte(_WHOLE) * tile.cells * data.cell
