"""Splits of a sequence into contiguous parts of about equal cost."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np

# The heaviest part may be this much heavier than it has to be, if that makes the cuts cheaper.
SLACK = 1.2


def partition(costs: Sequence[int], cuts: Sequence[int | None], parts: int) -> list[int]:
    """Splits a sequence.

    Of all ways in which no part is heavier than `SLACK` times the least possible heaviest one,
    takes the one with the cheapest cuts, and of those the most even one.

    Args:
        costs: Cost of each item, an integer >= 0.
        cuts: Cost of cutting after each item but the last, None where that is not allowed.
        parts: number of parts.

    Returns:
        The part of each item: 0 for the first, never falling, rising in steps of one. There are
        fewer parts than asked for where the allowed cuts do not suffice.
    """
    ends = [index + 1 for index, cut in enumerate(cuts) if cut is not None]
    bounds = [0, *ends, len(costs)]
    sums = np.concatenate([[0], np.cumsum(np.asarray(costs, np.int64))])[bounds]
    price = np.array([0, *(cut for cut in cuts if cut is not None)], np.float64)
    parts = min(parts, len(bounds) - 1)
    chosen = _cheapest(sums, price, parts, int(_least_maximum(sums, parts) * SLACK))
    starts = [bounds[block] for block in chosen]
    return [bisect.bisect_right(starts, index) - 1 for index in range(len(costs))]


def _least_maximum(sums: np.ndarray, parts: int) -> int:
    """Returns the cost of the heaviest part in the most even split.

    Args:
        sums: Cost of all blocks before each block, and of all blocks; int64.
        parts: number of parts.
    """
    low, high = int(np.max(np.diff(sums))), int(sums[-1])
    while low < high:
        middle = (low + high) // 2
        if _fits(sums, parts, middle):
            high = middle
        else:
            low = middle + 1
    return low


def _fits(sums: np.ndarray, parts: int, limit: int) -> bool:
    """Returns whether parts of at most `limit` suffice, each filled greedily."""
    block = 0
    for _ in range(parts):
        block = int(np.searchsorted(sums, sums[block] + limit, side="right")) - 1
        if block == len(sums) - 1:
            return True
    return False


def _cheapest(sums: np.ndarray, price: np.ndarray, parts: int, limit: int) -> list[int]:
    """Returns the first block of each part.

    Args:
        sums: as in `_least_maximum`.
        price: Cost of cutting before each block; float64.
        parts: number of parts, at most the number of blocks.
        limit: largest cost of a part.
    """
    blocks = len(sums) - 1
    total = max(float(sums[-1]), 1.0)
    lowest = np.searchsorted(sums, sums - limit, side="left")
    best = np.full(blocks + 1, np.inf)
    best[0] = 0.0
    came_from = np.zeros((parts, blocks + 1), np.int64)
    for part in range(parts):
        before, best = best, np.full(blocks + 1, np.inf)
        for end in range(part + 1, blocks + 1):
            begin = int(lowest[end])
            # Prices are whole numbers, so the second term (less than 1 in all) settles ties.
            uneven = ((sums[end] - sums[begin:end]) / total) ** 2 / 2
            ways = before[begin:end] + price[begin:end] + uneven
            choice = int(np.argmin(ways))
            best[end] = ways[choice]
            came_from[part, end] = begin + choice
    starts = [blocks]
    for part in reversed(range(parts)):
        starts.append(int(came_from[part, starts[-1]]))
    return starts[:0:-1]
