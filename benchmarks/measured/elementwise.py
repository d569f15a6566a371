"""Rows of elementwise operations on a whole chip, and of reading the memory of all tiles."""

from __future__ import annotations

import re

from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import OpSpec, TensorType

from .element_types import dtype_of
from .harness import harness_of, resources
from .prediction import Prediction
from .rows import NotExpressible, Row, chip_of
from .units import of_bytes, of_elements

#: Groups of rows.
ELEMENTWISE, READ = "elementwise on the chip", "memory read on all tiles"

# Op type and number of operands, by a word of the workload.
_OPS = {
    "relu": ("Relu", 1),
    "square": ("Square", 2),
    "gelu": ("Gelu", 1),
    "sigmoid": ("Sigmoid", 1),
    "tanh": ("Tanh", 1),
    "sqrt": ("Sqrt", 1),
    "exp": ("Exp", 1),
    "add": ("AddV2", 2),
    "mul": ("Mul", 2),
}
_WORD = re.compile(r"[a-z]+")
_WIDTH = re.compile(r"\b(32|64|128)-bit\b")
_BYTE = 8


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is none of these.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    if row.workload.lower().startswith("local memory read"):
        return _read(row)
    words = _WORD.findall(row.workload.lower())
    found = next((_OPS[word] for word in words if word in _OPS), None)
    if "elements" not in row.parameters or found is None:
        return None
    chip = chip_of(row)
    op_type, operands = found
    elements = row.whole("elements") or 0
    dtype = dtype_of(row.parameters.get("dtype", ""))
    if dtype is None:
        raise NotExpressible("the type of the elements is not given")
    tensor = TensorType(dtype, (elements,))
    # An operation of one tensor with itself reads two operands.
    kind = "Mul" if op_type == "Square" else op_type
    spec = OpSpec(kind, (tensor,) * operands, (tensor,), {})
    cycles = catalogue.cost_of(spec, resources(row, chip)).cycles
    cycles += harness_of(row, elementwise=True).cycles((tensor,) * (operands + 1), chip)
    value = of_elements(elements, cycles / chip.clock, row, chip)
    return Prediction(row, f"{ELEMENTWISE} ({chip.title})", chip, value, fitted=True)


def _read(row: Row) -> Prediction:
    """Loads of one width by all workers of all tiles: a tile issues one in each cycle."""
    chip = chip_of(row)
    width = _WIDTH.search(row.text)
    if width is None:
        raise NotExpressible("the width of the loads is not given")
    rate = min(int(width[1]) / _BYTE, chip.load_rate) * chip.tiles * chip.clock
    return Prediction(row, f"{READ} ({chip.title})", chip, of_bytes(rate, 1.0, row))
