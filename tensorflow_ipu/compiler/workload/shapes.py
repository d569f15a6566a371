"""Shapes of results that TensorFlow leaves open.

TensorFlow does not follow the shapes of a list's elements into the gradients of loops. Here the
elements of a list have the shape of the tensors put into it, so shapes computed from them are known
too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]

_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "Prod", "All", "Any"})

# Ops that work element by element, on inputs of one shape or of shapes that broadcast.
_ELEMENTWISE = frozenset(
    {
        *("Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "MulNoNan"),
        *("Maximum", "Minimum", "SquaredDifference", "Pow", "SelectV2", "Select"),
        *("Tanh", "TanhGrad", "Sigmoid", "SigmoidGrad", "Relu", "ReluGrad", "Exp", "Log", "Neg"),
        *("Square", "Sqrt", "Rsqrt", "Softplus", "SoftplusGrad", "Elu", "EluGrad", "Cast", "Abs"),
        *("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "ZerosLike"),
        *("OnesLike", "Identity", "StopGradient", "PreventGradient", "Snapshot", "BiasAdd"),
    }
)


def infer(
    op_type: str, given: Mapping[str, Any], inputs: Sequence[Shape], index: int
) -> Shape | None:
    """Returns the shape of a result, None if it is not known from the inputs.

    Args:
        op_type: type of the op.
        given: its attributes and constant inputs by name.
        inputs: shapes of its inputs, all known.
        index: which result.
    """
    if index or not inputs:
        return None
    if op_type in _ELEMENTWISE:
        try:
            return tuple(np.broadcast_shapes(*inputs))
        except ValueError:
            return None
    if op_type == "MatMul":
        rows, columns = bool(given.get("transpose_a")), not given.get("transpose_b")
        return (inputs[0][rows], inputs[1][columns])
    axes = given.get("axes")
    if op_type == "Transpose" and axes is not None and len(axes) == len(inputs[0]):
        return tuple(inputs[0][axis] for axis in axes)
    if op_type == "ConcatV2" and axes is not None:
        return _concatenated(inputs[:-1], axes[0])
    if op_type in _REDUCTIONS and axes is not None:
        kept = (1,) if given.get("keep_dims") else ()
        sizes = [kept if axis in axes else (size,) for axis, size in enumerate(inputs[0])]
        return tuple(size for part in sizes for size in part)
    if op_type == "BiasAddGrad" and given.get("data_format", "NHWC") == "NHWC":
        return inputs[0][-1:]
    return None


def _concatenated(inputs: Sequence[Shape], axis: int) -> Shape:
    joined = list(inputs[0])
    joined[axis] = sum(shape[axis] for shape in inputs)
    return tuple(joined)
