"""Ranges of measurements around predictions, by kind: `of_op`, `of_sum`, `of_program`.

An interval holds eight of ten measurements. It comes from the residuals of its kind: measured /
predicted time of each configuration, widened until eight of ten configurations of sources that were
left out lie in it. Residuals of one kind have a part in common, the correlation: the part of their
variance that configurations of one series share. Such errors add up in a sum of ops, and all others
partly cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from tensorflow_ipu.costs.rules import data_movement, elementwise, pooling, reduction, slicing

#: Kind of an interval of ops of several kinds.
SUM = "sum of ops"
#: What measures the table below, and fails if it is out of date.
SOURCE = "benchmarks/accuracy.py"


class Interval(NamedTuple):
    """The range around a prediction in which eight of ten measurements lie.

    Args:
        kind: what was measured.
        low: measured / predicted time that one configuration in ten is below.
        middle: the median of measured / predicted time.
        high: the same that one in ten is above.
        correlation: part of the variance of residuals that a series has in common, 0 to 1.
        configurations: how many different ones were measured.
    """

    kind: str
    low: float
    middle: float
    high: float
    correlation: float
    configurations: int

    def of_time(self, predicted: float) -> tuple[float, float]:
        """Returns the range of a predicted time, in seconds or cycles.

        Args:
            predicted: the time.
        """
        return predicted * self.low, predicted * self.high

    def of_rate(self, predicted: float) -> tuple[float, float]:
        """Returns the range of a predicted number of items per second.

        Args:
            predicted: the rate.
        """
        return predicted / self.high, predicted / self.low


#: Programs: training steps of published models.
WHOLE_MODELS = Interval("whole models", 0.89, 1.03, 1.13, 0.07, 44)
#: Matrix products that the library splits over the tiles.
PRODUCTS = Interval("dense products", 0.95, 1.01, 1.14, 0.00, 298)
#: Several products at once, as in attention.
BATCHED = Interval("batched products", 0.74, 0.90, 1.02, 1.00, 46)
#: Convolutions without groups.
CONVOLUTIONS = Interval("convolutions", 0.72, 0.96, 1.31, 0.23, 186)
#: Convolutions whose channels are in groups, and depthwise ones.
GROUPED = Interval("grouped convolutions", 0.78, 0.95, 1.11, 0.00, 55)
#: Elementwise operations and poolings.
ELEMENTWISE = Interval("elementwise and pooling", 0.84, 1.00, 1.09, 0.00, 42)
#: Data that move between the tiles of an IPU, and reductions.
EXCHANGE = Interval("exchange on the chip", 0.93, 1.02, 1.26, 0.27, 57)
#: Data that move between IPUs, most of them in messages of a few bytes. Collectives are not of this
#: kind: what they reach of the links was fitted to whole models.
LINKS = Interval("exchange between chips", 0.30, 1.06, 6.45, 0.72, 44)
#: Any kind: all measurements but the straight line of matrix products on a tile.
ALL = Interval("all but the straight line", 0.85, 1.00, 1.22, 0.13, 1099)

#: All kinds.
INTERVALS = (
    WHOLE_MODELS,
    PRODUCTS,
    BATCHED,
    CONVOLUTIONS,
    GROUPED,
    ELEMENTWISE,
    EXCHANGE,
    LINKS,
    ALL,
)

# By the start of an op's type; the first that fits counts. Transfers have types of their own.
_BY_START = (
    ("DepthwiseConv2d", GROUPED),
    ("Conv2D", CONVOLUTIONS),
    ("Conv3D", CONVOLUTIONS),
    ("BatchMatMul", BATCHED),
    ("Einsum", BATCHED),
    ("XlaEinsum", BATCHED),
    ("MatMul", PRODUCTS),
    ("link", LINKS),
)
_BY_TYPE = {
    **dict.fromkeys((*elementwise.RULES, *pooling.RULES), ELEMENTWISE),
    **dict.fromkeys((*data_movement.RULES, *reduction.RULES, *slicing.RULES), EXCHANGE),
}


def of_op(op_type: str) -> Interval:
    """Returns the range of measured times of an op around its cycles.

    Args:
        op_type: type of the op, such as `Conv2D`, or `link` for a copy between IPUs. Types
            of which too little was measured take the spread of all measurements.
    """
    found = (interval for start, interval in _BY_START if op_type.startswith(start))
    return next(found, _BY_TYPE.get(op_type, ALL))


def of_sum(parts: Iterable[tuple[Interval, float]]) -> Interval:
    """Returns the range of the measured time of several ops around the sum of their cycles.

    Formula: with cycles c, deviation d from the middle and correlation r of a kind, a sum over the
    ops of a kind deviates by `d x sqrt(r (sum of c)^2 + (1 - r) (sum of c^2))`. Kinds deviate
    independently: their squares add up. Below and above the middle are treated alike.

    Args:
        parts: interval and cycles of each op; runs of one op are one part.

    Returns:
        The interval. That of one op is its own; of no cycles, that of all measurements.
    """
    cycles: dict[Interval, float] = {}
    squares: dict[Interval, float] = {}
    for interval, part in parts:
        cycles[interval] = cycles.get(interval, 0.0) + part
        squares[interval] = squares.get(interval, 0.0) + part**2
    total = sum(cycles.values())
    if total <= 0:
        return ALL
    middle = below = above = 0.0
    for interval, part in cycles.items():
        share = part / total
        common, own = interval.correlation, 1 - interval.correlation
        scale = common * share**2 + own * squares[interval] / total**2
        middle += share * interval.middle
        below += (interval.middle - interval.low) ** 2 * scale
        above += (interval.high - interval.middle) ** 2 * scale
    kinds = list(cycles)
    return Interval(
        kinds[0].kind if len(kinds) == 1 else SUM,
        middle - math.sqrt(below),
        middle,
        middle + math.sqrt(above),
        sum(cycles[kind] * kind.correlation for kind in kinds) / total,
        sum(kind.configurations for kind in kinds),
    )


def of_program(
    parts: Iterable[tuple[Interval, float]], models: Interval = WHOLE_MODELS
) -> Interval:
    """Returns the range of the measured time of a whole program around its prediction.

    It is the interval of the sum of its ops, and never narrower than that of whole models: their
    programs have all that a measured program has besides its ops.

    Args:
        parts: as for `of_sum`.
        models: the interval of whole models.
    """
    found = of_sum(parts)
    return found._replace(low=min(found.low, models.low), high=max(found.high, models.high))
