"""Rows of products of a sparse and a dense matrix: how much faster than a dense product.

A tile multiplies each non-zero block with the rows of the dense matrix that it needs. Blocks of one
element go through the vector unit, larger ones through the matrix unit, whose weights they are. All
else is as in the dense product: the dense operand and the sums move between tiles. With a dynamic
pattern the blocks are where the pattern of a run has put them, so each tile passes its blocks on to
others until all have met what they need, which the sums do again (the public description of
PopSparse, "Matrix Multiplication (Dynamic Pattern) on the IPU").
"""

from __future__ import annotations

import math
import re

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.chip.vertex import supervised
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType

from .element_types import dtype_of, types_of
from .prediction import Prediction
from .rows import NotExpressible, Row, checked_size, chip_of
from .units import is_flops, of_flops

SPARSE = "product of a sparse matrix"

_WORDS = re.compile(r"sparse x dense|sparse (?:product|matrix|matmul)|spmm")
_SIZE = re.compile(r"m=k=(\d+)")
_PROPORTION = 0.6
# Instructions of a worker for each non-zero element besides those for its products: it loads the
# element, and where its row of the dense matrix begins.
_ELEMENT_CYCLES = 2
# A pattern that is not known when the program is compiled moves blocks and sums once more.
_DYNAMIC_EXCHANGES = 2


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is none of these.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    if not _WORDS.search(row.workload.lower()):
        return None
    size = _SIZE.search(row.text)
    dtype = dtype_of(row.parameters.get("dtype", ""))
    known = "speed-up" in row.metric.lower() or is_flops(row)
    if size is None or dtype is None or not known:
        raise NotExpressible("size or type of the sparse product is not given")
    block = row.whole("block") or 1
    density = _share(row.parameters.get("density", ""))
    dynamic = "dynamic" in row.workload.lower()
    # Ratios are of times on the same chip; their rows name several.
    chip = chip_of(row) if is_flops(row) else chips.BOW
    side = checked_size(int(size[1]), "the size of the matrix")
    columns = row.whole("n") or side
    partials = types_of(row)[1]
    dense = _dense(side, columns, dtype, partials, chip)
    sparse = _sparse_cycles(side, columns, dtype, partials, block, density, dynamic, dense, chip)
    value = dense.cycles / sparse
    if is_flops(row):
        # Operations on elements that are not zero.
        value = of_flops(2.0 * density * side**2 * columns, sparse / chip.clock, row)
    return Prediction(row, SPARSE, chip, value)


def _share(text: str) -> float:
    """A density such as 1/16.

    Raises:
        NotExpressible: it is none.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    if match is None or not 0 < int(match[1]) <= int(match[2]):
        raise NotExpressible("the density is not given")
    return int(match[1]) / int(match[2])


def _dense(size: int, columns: int, dtype: str, partials: str, chip: Chip) -> Cost:
    matrix, right = TensorType(dtype, (size, size)), TensorType(dtype, (size, columns))
    spec = OpSpec("MatMul", (matrix, right), (right,), {})
    return catalogue.cost_of(spec, Resources(chip, chip.tiles, _PROPORTION, partials))


def _sparse_cycles(
    size: int,
    columns: int,
    dtype: str,
    partials: str,
    block: int,
    density: float,
    dynamic: bool,
    dense: Cost,
    chip: Chip,
) -> float:
    """Cycles of the sparse product."""
    products = density * size**2 * columns / chip.tiles
    compute = (
        _elements(products, columns, dtype, chip)
        if block == 1
        else _blocks(products, dtype, partials, chip)
    )
    exchange = dense.exchange * (_DYNAMIC_EXCHANGES if dynamic else 1)
    return compute + exchange + dense.sync


def _elements(products: float, size: int, dtype: str, chip: Chip) -> float:
    """Cycles of a tile that multiplies elements with rows of a square dense matrix."""
    width = chip.half_vector_width if dtype == "float16" else chip.float_vector_width
    # Tiles divide the columns as evenly as the rest, so a row on a tile has so many.
    columns = size / math.sqrt(chip.tiles)
    vectors = products / width
    elements = products / columns
    worker = (vectors + _ELEMENT_CYCLES * elements) / chip.workers_per_tile
    return supervised(worker, chip)


def _blocks(products: float, dtype: str, partials: str, chip: Chip) -> float:
    """Cycles of a tile whose matrix unit has the blocks as its weights."""
    unit = amp.unit(chip, dtype, partials)
    return products / unit.macs
