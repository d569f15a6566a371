"""Dataflow of the batch dimension from an op's inputs to its results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

# Type and shape matter here only: a shape, and the dimension that grows with the batch.
Batched = tuple[tuple[int, ...], Optional[int]]

# Ops whose results are sums over the batch or describe shapes, for any dimensions.
_WITHOUT = frozenset(
    {
        *("BiasAddGrad", "Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs", "Range"),
        *("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "Conv3DBackpropFilter"),
        "DepthwiseConv2dNativeBackpropFilter",
    }
)
_FIRST_RESULT_ONLY = ("FusedBatchNorm", "PopnnGroupNorm", "PopnnLayerNorm")
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "ArgMax", "ArgMin"})
_RESHAPES = frozenset({"Reshape", "Squeeze", "ExpandDims"})


def batched_dimension(
    op_type: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[Batched],
    index: int,
    shape: tuple[int, ...],
) -> int | None:
    """Returns the dimension of a result that grows with the batch size.

    Args:
        op_type: type of the op.
        attributes: its attributes, `axes` included.
        inputs: shape and batched dimension of each input.
        index: which result.
        shape: its shape.

    Returns:
        The index of the dimension, None if none does as far as is known.
    """
    if op_type in _WITHOUT or (index and op_type.startswith(_FIRST_RESULT_ONLY)):
        return None
    if op_type == "MatMul":
        return _product(attributes, inputs)
    for input_shape, batched in inputs:
        if batched is not None:
            found = _carried(op_type, attributes, input_shape, batched, shape)
            if found is not None:
                return found
    return None


def _product(attributes: Mapping[str, Any], inputs: Sequence[Batched]) -> int | None:
    """Returns the batched dimension of a matrix product: rows are the first operand's."""
    for position, name in enumerate(("transpose_a", "transpose_b")):
        batched = inputs[position][1]
        kept = position ^ bool(attributes.get(name))
        if batched is not None and batched == kept:
            return position
    return None


def _carried(
    op_type: str,
    attributes: Mapping[str, Any],
    before: tuple[int, ...],
    batched: int,
    after: tuple[int, ...],
) -> int | None:
    """Returns the position of an input's batched dimension in the result."""
    axes = attributes.get("axes")
    if op_type in _REDUCTIONS:
        if axes is None or batched in axes:
            return None
        if len(after) == len(before):
            return batched
        return batched - sum(axis < batched for axis in axes)
    if op_type == "Transpose":
        return axes.index(batched) if axes and batched in axes else None
    if op_type in _RESHAPES:
        return _reshaped(before, batched, after)
    # Aligned from the end for ops that broadcast, from the start for all others.
    for moved in (batched, batched + len(after) - len(before)):
        if 0 <= moved < len(after) and after[moved] == before[batched]:
            return moved
    return None


def _reshaped(before: tuple[int, ...], batched: int, after: tuple[int, ...]) -> int | None:
    """Returns the index of a dimension after a reshape: the product in front of it is unchanged.

    The reshape may merge the dimension with the one behind it, or split it.
    """
    front, size = math.prod(before[:batched]), before[batched]
    for index, now in enumerate(after):
        fits = 0 not in (now, size) and 0 in (now % size, size % now)
        if math.prod(after[:index]) == front and fits and (now > 1 or size == 1):
            return index
    return None
