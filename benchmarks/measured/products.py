"""Rows of matrix products of the library on a whole chip: square, skewed and batched."""

from __future__ import annotations

import re

from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import OpSpec, TensorType

from .element_types import types_of
from .harness import harness_of, resources
from .prediction import Prediction
from .rows import NotExpressible, Row, checked_size, chip_of
from .units import of_work

#: Groups of rows.
DENSE, BATCHED, LINEAR = "product", "batched product", "product, linear tile mapping"

_WORDS = re.compile(r"matmul|matrix (?:product|multipl)|gemm")
_OTHERS = re.compile(r"on-tile|sparse")
_THREE = re.compile(r"\b(\d+)\s*x\s*(\d+)\s*x\s*(\d+)\b")
_SHAPE = re.compile(r"\[?(\d+)\s*[x,]\s*(\d+)\]?\s*(?:x|by|\*)\s*\[?(\d+)\s*[x,]\s*(\d+)\]?")


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is no product of the library.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    if not knows(row):
        return None
    chip = chip_of(row)
    groups, m, k, n = _sizes(row)
    dtype, partials = types_of(row, "float32")
    linear = is_linear(row)
    left, right = _tensor(dtype, groups, m, k), _tensor(dtype, groups, k, n)
    result = _tensor(dtype, groups, m, n)
    given = resources(row, chip, partials, allocated=not linear)
    kind = "MatMul" if groups == 1 else "BatchMatMulV2"
    cycles = catalogue.cost_of(OpSpec(kind, (left, right), (result,), {}), given).cycles
    cycles += harness_of(row).cycles((left, result), chip)
    group = LINEAR if linear else DENSE if groups == 1 else BATCHED
    name = f"{chip.name}, {groups} x [{m}, {k}] x [{k}, {n}], {dtype}, {partials}, {group}"
    return Prediction(
        row,
        f"{group} ({chip.title})",
        chip,
        of_work(2.0 * groups * m * k * n, cycles / chip.clock, row, chip),
        fitted=True,
        configuration=name,
        cycles=cycles,
    )


def knows(row: Row) -> bool:
    """Whether a row is a product of the library."""
    workload = row.workload.lower()
    return bool(_WORDS.search(workload)) and not _OTHERS.search(workload)


def is_linear(row: Row) -> bool:
    """Returns whether the operands have a linear tile mapping instead of the library's."""
    return "mapping=basic" in row.text or "linear" in row.text


def is_batched(row: Row) -> bool:
    """Whether a row is of several products at once."""
    return "batched" in row.text or "groups" in row.parameters


def _tensor(dtype: str, groups: int, rows: int, columns: int) -> TensorType:
    shape = (rows, columns) if groups == 1 else (groups, rows, columns)
    return TensorType(dtype, shape)


def _sizes(row: Row) -> tuple[int, int, int, int]:
    """Number of products, rows, inner dimension and columns.

    Raises:
        NotExpressible: the row does not give them.
    """
    m, k, n = (row.whole(*names) for names in (("m",), ("k",), ("n", "size", "side")))
    if n is None and m is None and k is None:
        m, k, n = _shape(row.text)
    elif m is None and k is None:
        m = k = n
    if m is None or k is None or n is None:
        raise NotExpressible("the sizes of the matrices are not given")
    groups = row.whole("groups", "batches")
    if groups is None and "batched" in row.text:
        groups = row.whole("batch", "b")
        if groups is None:
            raise NotExpressible("the number of products is not given")
    return groups or 1, m, k, n


def _shape(text: str) -> tuple[int | None, int | None, int | None]:
    """Sizes of a text such as `[64, 32] x [32, 8]` or `64 x 32 x 8`; none without."""
    match = _SHAPE.search(text)
    if match is None:
        three = _THREE.search(text)
        sides = three.groups() if three else ()
        m, k, n = (
            (checked_size(int(side), "a dimension") for side in sides) if sides else (None,) * 3
        )
        return m, k, n
    m, k, inner, n = (checked_size(int(number), "a dimension") for number in match.groups())
    if k != inner:
        raise NotExpressible("the shapes of the matrix product do not fit")
    return m, k, n
