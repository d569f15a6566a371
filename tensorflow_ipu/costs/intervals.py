"""Where measurements lie around predictions, by kind: `of_op`, `of_program`."""

from __future__ import annotations

from typing import NamedTuple

#: What measures the table below, and fails if it is out of date.
SOURCE = "benchmarks/accuracy.py"


class Interval(NamedTuple):
    """The range around a prediction in which eight of ten measurements lie.

    Args:
        kind: what was measured.
        low: measured / predicted time that one configuration in ten is below.
        high: the same that one in ten is above.
        configurations: how many different ones were measured.
    """

    kind: str
    low: float
    high: float
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
WHOLE_MODELS = Interval("whole models", 0.89, 1.11, 32)
#: Convolutions and matrix products that the library splits over the tiles.
PRODUCTS = Interval("library convolutions", 0.77, 1.14, 62)
#: Any kind: all measurements but the straight line of matrix products on a tile.
ALL = Interval("all but the straight line", 0.82, 1.16, 246)

#: All kinds.
INTERVALS = (WHOLE_MODELS, PRODUCTS, ALL)

_PRODUCTS = ("Conv2D", "Conv3D", "DepthwiseConv2d", "MatMul", "BatchMatMul", "Einsum")


def of_op(op_type: str) -> Interval:
    """Returns where measured times of an op lie around its cycles.

    Args:
        op_type: type of the op, such as `Conv2D`. Types of which too little was measured take the
            spread of all measurements.
    """
    return PRODUCTS if op_type.startswith(_PRODUCTS) else ALL


def of_program() -> Interval:
    """Returns where measured times of programs lie around their predictions."""
    return WHOLE_MODELS
