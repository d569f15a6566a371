"""Rows of vertices on each tile without exchange: matrix products and elementwise operations."""

from __future__ import annotations

import math
import re

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.rules import elementwise

from .element_types import dtype_of, types_of
from .prediction import Prediction
from .rows import NotExpressible, Row, checked_size, chip_of
from .units import is_flops, is_time, of_flops, of_time

# Figures were fitted to rows of this chip; rows of others check them.
FITTED_CHIP = "bow"

AMP, ELEMENTWISE = "matrix product on the tile", "elementwise on the tile"

# Cycles between two stamps with nothing in between, by the author of tessellate-ipu. It is part of
# rows whose parameters say that they include the measuring overhead.
STAMP_CYCLES = 45

_MATMUL = re.compile(r"\[(\w+),\s*(\w+)\]\s*x\s*\[(\w+),\s*(\w+)\]")
_ELEMENTWISE = re.compile(r"elementwise (\w+) (\w+)")
_OPERATIONS = {"add": "AddV2", "sub": "Sub", "mul": "Mul", "multiply": "Mul", "divide": "RealDiv"}
_VALUES_PER_TILE = re.compile(r"(\d[\d,]*) values per tile")
_SPREAD = re.compile(r"(\d+(?:\s*[x*]\s*\d+)*) values over (\d+) tiles")


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is none of these.

    Raises:
        NotExpressible: it lacks something.
    """
    lower = row.workload.lower()
    if "on-tile matmul" in lower:
        return _matmul(row)
    if _ELEMENTWISE.search(lower):
        return _elementwise(row)
    return None


def _matmul(row: Row) -> Prediction:
    """A matrix product on every tile: a vertex of 1x1 convolutions, and entering a compute set."""
    chip = chip_of(row)
    match = _MATMUL.search(row.workload)
    if match is None:
        raise NotExpressible("the shape of the matrix product is not given")
    m, k, k2, n = (_dimension(row, text) for text in match.groups())
    if k != k2:
        raise NotExpressible("the shapes of the matrix product do not fit")
    tiles = row.whole("tiles") or chip.tiles
    cycles = _vertex_cycles(chip, m, k, n, *types_of(row))
    value: float
    if is_flops(row):
        value = of_flops(2.0 * m * k * n * tiles, cycles / chip.clock, row)
    elif is_time(row):
        value = of_time(cycles / chip.clock, row, chip)
    else:
        raise NotExpressible(f"unit {row.unit} for a matrix product")
    fitted = chip.name == FITTED_CHIP
    share = chip.compute_set_cycles / cycles
    return Prediction(row, AMP, chip, value, fitted, "", "compute_set_cycles", share)


def _dimension(row: Row, text: str) -> int:
    """A dimension: a number, or the name of an option."""
    size = int(text) if text.isdecimal() else row.whole(text.lower())
    if size is None:
        raise NotExpressible(f"the row does not say what {text} is")
    return checked_size(size, "a dimension of the matrix product")


def _vertex_cycles(chip: Chip, m: int, k: int, n: int, dtype: str, partials: str) -> float:
    unit = amp.unit(chip, dtype, partials)
    inputs, outputs = -(-k // unit.input_channels), -(-n // unit.output_channels)
    return float(amp.vertex_1x1(unit, m, inputs, outputs)) + chip.compute_set_cycles


def _elementwise(row: Row) -> Prediction:
    """Predicts an elementwise operation on N values of each tile."""
    chip = chip_of(row)
    match = _ELEMENTWISE.search(row.workload.lower())
    operation = _OPERATIONS.get(match[1]) if match else None
    dtype = dtype_of(match[2]) if match else None
    if operation is None or dtype is None:
        raise NotExpressible("an elementwise operation or type that is not in the list")
    cycles = elementwise.tile_cycles(operation, _values(row), dtype, chip)
    if "includes measuring overhead" in row.parameters:
        cycles += STAMP_CYCLES
    value = of_time(cycles / chip.clock, row, chip)
    fitted = chip.name == FITTED_CHIP
    share = chip.elementwise_cycles / cycles
    return Prediction(row, ELEMENTWISE, chip, value, fitted, "", "elementwise_cycles", share)


def _values(row: Row) -> int:
    """Values on the fullest tile."""
    text = row.text.lower()
    match = _VALUES_PER_TILE.search(text)
    if match:
        return checked_size(float(match[1].replace(",", "")), "the number of values on a tile")
    spread = _SPREAD.search(text)
    if spread is None:
        raise NotExpressible("the number of values on a tile is not given")
    total = math.prod(float(factor) for factor in re.split(r"[x*]", spread[1]))
    tiles = checked_size(float(spread[2]), "the number of tiles")
    return -(-checked_size(total, "the number of values on a tile") // tiles)
