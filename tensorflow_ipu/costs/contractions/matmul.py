"""Cost of matrix multiplication."""

from __future__ import annotations

import functools

from tensorflow_ipu.costs.contractions import partition, vector_unit
from tensorflow_ipu.costs.contractions.contraction import Product, arithmetic
from tensorflow_ipu.costs.cost import FREE, Cost, Resources, UnknownCostError


@functools.lru_cache(maxsize=8192)
def matmul(batch: int, m: int, k: int, n: int, dtype: str, resources: Resources) -> Cost:
    """Returns the cost of `batch` products of [m, k] and [k, n] matrices.

    The better of two ways counts: the rows of one or the columns of the other stream through the
    matrix unit. Types without matrix unit take vector arithmetic. See `partition.best`.

    Args:
        batch: number of products.
        m: rows of the first matrix.
        k: columns of the first matrix, rows of the second.
        n: columns of the second matrix.
        dtype: element type of both.
        resources: what the op has at its disposal.

    Raises:
        UnknownCostError: a dimension is negative.
    """
    if min(batch, m, k, n) < 0:
        raise UnknownCostError(
            f"Expected matrices of {batch} x [{m}, {k}] x [{k}, {n}] to have no negative dimension."
        )
    if not batch * m * k * n:
        return FREE
    types = arithmetic(dtype, resources.partials, resources.chip)
    if types is None:
        return vector_unit.multiply(batch * m * n, k, dtype, resources)
    ways = [Product(*types, rows, k, columns, batch) for rows, columns in {(m, n): 0, (n, m): 0}]
    return partition.cheapest([partition.best(way, resources) for way in ways])
