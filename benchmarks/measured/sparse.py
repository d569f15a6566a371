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

from .prediction import Prediction
from .rows import NotExpressible, Row, checked_size

SPARSE = "product of a sparse matrix"

_SIZE = re.compile(r"m=k=(\d+)")
_DTYPES = {"fp16": "float16", "fp32": "float32"}
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
    if not row.workload.lower().startswith("sparse x dense"):
        return None
    size = _SIZE.search(row.text)
    dtype = _DTYPES.get(row.parameters.get("dtype", "").lower())
    if size is None or dtype is None or "speed-up" not in row.metric.lower():
        raise NotExpressible("size or type of the sparse product is not given")
    block = row.whole("block") or 1
    density = _share(row.parameters.get("density", ""))
    dynamic = "dynamic" in row.workload.lower()
    # A ratio of times on the same chip; rows name several.
    chip = chips.BOW
    dense = _dense(checked_size(int(size[1]), "the size of the matrix"), dtype, chip)
    sparse = _sparse_cycles(int(size[1]), dtype, block, density, dynamic, dense, chip)
    return Prediction(row, SPARSE, chip, dense.cycles / sparse)


def _share(text: str) -> float:
    """A density such as 1/16.

    Raises:
        NotExpressible: it is none.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    if match is None or not 0 < int(match[1]) <= int(match[2]):
        raise NotExpressible("the density is not given")
    return int(match[1]) / int(match[2])


def _dense(size: int, dtype: str, chip: Chip) -> Cost:
    matrix = TensorType(dtype, (size, size))
    spec = OpSpec("MatMul", (matrix, matrix), (matrix,), {})
    return catalogue.cost_of(spec, Resources(chip, chip.tiles, _PROPORTION, dtype))


def _sparse_cycles(
    size: int, dtype: str, block: int, density: float, dynamic: bool, dense: Cost, chip: Chip
) -> float:
    """Cycles of the sparse product."""
    products = density * size**3 / chip.tiles
    compute = (
        _elements(products, size, dtype, chip) if block == 1 else _blocks(products, dtype, chip)
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


def _blocks(products: float, dtype: str, chip: Chip) -> float:
    """Cycles of a tile whose matrix unit has the blocks as its weights."""
    unit = amp.unit(chip, dtype, dtype)
    return products / unit.macs
