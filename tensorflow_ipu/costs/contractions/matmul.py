"""Costs of matrix products, and of ops made of them: MatMul, Einsum, factorizations."""

from __future__ import annotations

import functools
import math

from tensorflow_ipu.costs.chip.vertex import phase, share, type_name
from tensorflow_ipu.costs.contractions import partition, vector_unit
from tensorflow_ipu.costs.contractions.contraction import Product, arithmetic
from tensorflow_ipu.costs.cost import (
    FREE,
    Cost,
    OpSpec,
    Resources,
    Rule,
    TensorType,
    UnknownCostError,
    largest,
    rules,
)
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.data_movement import rearrangement
from tensorflow_ipu.costs.rules.elementwise import elementwise, expression_cycles
from tensorflow_ipu.costs.rules.reduction import reduction


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


# --- Rules of ops ---

# Steps of the iterations for singular values and eigenvalues, each a QR factorization. Assumed.
_ITERATIONS = 10


def product(spec: OpSpec, resources: Resources) -> Cost:
    """Returns the cost of MatMul and its batched forms.

    A flag for each operand says whether it is transposed. Products with one and the same right
    operand are a single product of all their rows.

    Args:
        spec: the op.
        resources: what it has at its disposal.
    """
    left, right, result = spec.input(0), spec.input(1), spec.output()
    given = spec.attributes
    transposed = given.get("transpose_a") or given.get("adj_x")
    inner = left.dimension(-2 if transposed else -1)
    rows, columns = result.dimension(-2), result.dimension(-1)
    batch = math.prod(result.shape[:-2])
    if math.prod(right.shape[:-2]) == 1:
        batch, rows = 1, batch * rows
    return matmul(batch, rows, inner, columns, left.dtype, resources)


def _einsum(spec: OpSpec, resources: Resources) -> Cost:
    """Prices an einsum of one or two operands, by its equation.

    Labels in both operands and the result make up the batch, those in both only are summed, those
    in one operand are rows or columns. Labels of one operand alone that the result lacks are summed
    before; they count as summed with the product. More operands: one after the other, assumed.
    """
    equation = str(spec.attributes.get("equation", "")).replace(" ", "")
    sources, _, result = equation.partition("->")
    operands = sources.split(",")
    ranks = [len(tensor.shape) for tensor in spec.inputs]
    if [len(labels) for labels in operands] != ranks or len(operands) > 2 or "." in equation:
        return _of_largest(spec, resources)
    lengths = {c: n for s, t in zip(operands, spec.inputs) for c, n in zip(s, t.shape)}
    if len(operands) == 1:
        return _rearranged_sum(spec, operands[0], result, resources)
    left, right = (set(labels) for labels in operands)
    kept = set(result)

    def size(labels: set[str]) -> int:
        return math.prod(lengths.get(label, 1) for label in labels)

    return matmul(
        size(left & right & kept),
        size((left - right) & kept),
        size((left | right) - kept),
        size((right - left) & kept),
        spec.input(0).dtype,
        resources,
    )


def _rearranged_sum(spec: OpSpec, labels: str, result: str, resources: Resources) -> Cost:
    """Prices an einsum of one operand: a transpose, or a sum over the missing labels."""
    source, target = spec.input(0), spec.output()
    if set(labels) == set(result):
        whole = labels[-1:] == result[-1:]
        return rearrangement(source.num_bytes, 8 if whole else source.element_size, resources)
    trailing = labels.startswith(result)
    return reduction("Sum", source, target.elements, trailing, resources)


def _of_largest(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a product of the largest operand and the result's columns. Assumed."""
    whole = largest(spec.inputs)
    inner = max(whole.shape, default=1)
    columns = max(spec.output().shape, default=1)
    rows = -(-whole.elements // max(inner, 1))
    cost = matmul(1, rows, inner, columns, whole.dtype, resources)
    return cost + Cost(label=Label.ASSUMED)


def _sequential(tensor: TensorType, resources: Resources) -> Cost:
    """Prices the columns of a factorization: a root or quotient and a scaled column each."""
    lines = max(tensor.shape[-2:], default=1)
    batch = math.prod(tensor.shape[:-2])
    on_tile = share(batch * lines, tensor.element_size, resources.tiles)
    cycles = expression_cycles(("sqrt", "divide"), on_tile, tensor.dtype, resources.chip)
    received = on_tile * tensor.element_size
    codelet = f"Column_{type_name(tensor.dtype)}"
    step = phase(cycles, codelet, resources.chip, received, received, label=Label.ASSUMED)
    return step.times(lines)


def _factorized(products: int) -> Rule:
    """Returns a rule for factorizations: a number of full products and a pass over the columns.

    No formula of the library for them is known; the arithmetic of a factorization of [m, n] is at
    most `m x n x min(m, n)` products, which blocked algorithms do as matrix products.
    """

    def cost(spec: OpSpec, resources: Resources) -> Cost:
        matrix = spec.input(0)
        rows, columns = (matrix.shape[-2:] + (1, 1))[:2]
        batch = math.prod(matrix.shape[:-2])
        extra = spec.input(1).shape[-1:] if len(spec.inputs) > 1 else ()
        width = max(columns, *extra) if extra else columns
        one = matmul(batch, rows, min(rows, columns), width, matrix.dtype, resources)
        return one.times(products) + _sequential(matrix, resources).times(products)

    return Rule(cost)


def _cross(spec: OpSpec, resources: Resources) -> Cost:
    """Prices Cross: two products and a difference for each element. Assumed."""
    return elementwise(spec, resources) + Cost(label=Label.ASSUMED)


RULES: dict[str, Rule] = {
    **rules(product, "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3", "transpose_a adj_x"),
    **rules(_einsum, "Einsum XlaEinsum", "equation"),
    **dict.fromkeys("Cholesky MatrixTriangularSolve".split(), _factorized(1)),
    **dict.fromkeys(
        """
        CholeskyGrad Lu MatrixSolve MatrixInverse MatrixDeterminant LogMatrixDeterminant Qr
        MatrixSolveLs TridiagonalSolve
        """.split(),
        _factorized(2),
    ),
    **dict.fromkeys(
        "Svd SelfAdjointEig SelfAdjointEigV2 Eig MatrixSquareRoot MatrixExponential".split(),
        _factorized(2 * _ITERATIONS),
    ),
    **rules(_cross, "Cross"),
}
