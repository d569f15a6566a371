"""Rows of stencils on Mk1 that the library computes as convolutions.

The program is `PoplibsStencil.cpp` of github.com/thorbenlouw/lbm-graphcore: it blurs an image of
four channels with a 3x3 convolution, twice for each iteration, each time copying the result back
to where the input was. Its experiments made 100 iterations.
"""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.chip.exchange import exchange_cycles, link_cycles, sync_cycles
from tensorflow_ipu.costs.cost import OpSpec, Resources, TensorType

from ..element_types import dtype_of
from ..prediction import Prediction
from ..rows import NotExpressible, Row, chip_of
from ..units import of_time
from .images import image_of

CONVOLUTION = "library convolution (Mk1)"

_CHANNELS = 4
_KERNEL = 3
_ITERATIONS, _PER_ITERATION = 100, 2
# Poplin's default proportion, for rows that give none.
_PROPORTION = 0.6


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is none of these.

    Raises:
        NotExpressible: it lacks something.
    """
    return _convolution(row) if "convolution stencil" in row.workload.lower() else None


def _convolution(row: Row) -> Prediction:
    chip = chip_of(row)
    dtype = dtype_of(row.parameters.get("dtype", ""))
    if dtype is None:
        raise NotExpressible("the type of the image's values is not given")
    proportion = row.number("availablememoryproportion")
    proportion = _PROPORTION if proportion is None else proportion
    if not 0 < proportion <= 1:
        raise NotExpressible("availableMemoryProportion is not between 0 and 1")
    ipus = row.whole("ipus") or 1
    iterations = row.whole("iterations") or _ITERATIONS
    cycles = _step(image_of(row), dtype, ipus, proportion, chip) * iterations * _PER_ITERATION
    value = of_time(cycles / chip.clock, row, chip)
    return Prediction(row, CONVOLUTION, chip, value, fitted=True)


def _step(image: tuple[int, int], dtype: str, ipus: int, proportion: float, chip: Chip) -> float:
    """Cycles of a convolution and of the copy of its result, each IPU having a part of the rows."""
    width, height = image
    rows = -(-height // ipus)
    data = TensorType(dtype, (1, rows, width, _CHANNELS))
    kernel = TensorType(dtype, (_KERNEL, _KERNEL, _CHANNELS, _CHANNELS))
    spec = OpSpec(
        "Conv2D",
        (data, kernel),
        (data,),
        {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC"},
    )
    cost = catalogue.cost_of(spec, Resources(chip, chip.tiles, proportion))
    copied = exchange_cycles(data.num_bytes / chip.tiles, chip) + sync_cycles(1, chip)
    return cost.cycles + copied + _between_ipus(width * data.element_size * _CHANNELS, ipus, chip)


def _between_ipus(row_bytes: int, ipus: int, chip: Chip) -> float:
    """Cycles in which IPUs exchange the rows at their borders, before and after the convolution."""
    if ipus == 1:
        return 0.0
    return 2 * (link_cycles(row_bytes, chip) + sync_cycles(ipus, chip))
