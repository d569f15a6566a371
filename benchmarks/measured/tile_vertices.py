"""Rows of convolutions and poolings whose operands are on one tile."""

from __future__ import annotations

import math

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.contractions import convolution
from tensorflow_ipu.costs.cost import OpSpec, TensorType

from .harness import resources
from .prediction import Prediction
from .rows import NotExpressible, Row, chip_of
from .units import is_flops, of_time, of_work

#: Groups of rows.
CONVOLUTION, POOLING = "convolution on one tile", "pooling on one tile"

# Profiles do not name their pool; a maximum and a mean take about the same.
_POOL = "MaxPool"


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is of no op on one tile.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    workload = row.workload.lower()
    if "one tile" not in workload or "vertex" not in workload:
        return None
    chip = chip_of(row)
    if "convolution" in workload:
        return _convolution(row, chip)
    if "pool" in workload:
        return _pooling(row, chip)
    raise NotExpressible("a vertex that is not in the list")


def _convolution(row: Row, chip: Chip) -> Prediction:
    """A convolution whose image is square if its positions are a square number."""
    batch, inputs, outputs = (_given(row, name) for name in ("batch", "cin", "cout"))
    height, width = _sides(_given(row, "out h*w", "h*w"))
    rows, columns = _sides(_given(row, "kernel area"))
    dtype = _type(row)
    spec = OpSpec(
        "Conv2D",
        (
            TensorType(dtype, (batch, height, width, inputs)),
            TensorType(dtype, (rows, columns, inputs, outputs)),
        ),
        (TensorType(dtype, (batch, height, width, outputs)),),
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
    )
    cycles = convolution.vertex_cycles(spec, chip)
    products = batch * height * width * rows * columns * inputs * outputs
    value = of_work(2.0 * products, cycles / chip.clock, row, chip)
    return Prediction(row, f"{CONVOLUTION} ({chip.title})", chip, value, fitted=True)


def _pooling(row: Row, chip: Chip) -> Prediction:
    """A pooling with stride 1."""
    channels = _given(row, "channels")
    height, width = _sides(_given(row, "h*w"))
    rows, columns = _sides(_given(row, "kernel area"))
    dtype = _type(row)
    image = TensorType(dtype, (row.whole("batch") or 1, height, width, channels))
    given = {"ksize": [1, rows, columns, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    spec = OpSpec(_POOL, (image,), (image,), given)
    cycles = catalogue.cost_of(spec, resources(row, chip, tiles=1)).compute
    if is_flops(row):
        raise NotExpressible(f"unit {row.unit} for a pooling")
    return Prediction(
        row, f"{POOLING} ({chip.title})", chip, of_time(cycles / chip.clock, row, chip), True
    )


def _type(row: Row) -> str:
    """Type of the operands: half precision unless the row says else."""
    return "float32" if "fp32" in row.text or "float32" in row.text else "float16"


def _given(row: Row, *names: str) -> int:
    """An option that the row must give.

    Raises:
        NotExpressible: it does not.
    """
    value = row.whole(*names)
    if value is None:
        raise NotExpressible(f"the option {names[0]} is not given")
    return value


def _sides(area: int) -> tuple[int, int]:
    """Returns height and width of an area: a square if possible, else a row."""
    side = math.isqrt(area)
    return (side, side) if side * side == area else (1, area)
