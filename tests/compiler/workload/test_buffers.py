"""Shapes that TensorFlow leaves open, compared with NumPy's."""

from __future__ import annotations

from typing import Any

import pytest

from tensorflow_ipu.compiler.workload.buffers import batched_dimension, infer


@pytest.mark.parametrize(
    "op_type, given, inputs, expected",
    [
        ("AddN", {}, [(2, 3), (2, 3)], (2, 3)),
        ("Mul", {}, [(2, 1, 3), (4, 1)], (2, 4, 3)),
        ("Mul", {}, [(2, 3), (4, 3)], None),
        ("MatMul", {}, [(2, 3), (3, 5)], (2, 5)),
        ("MatMul", {"transpose_a": True, "transpose_b": True}, [(3, 2), (5, 3)], (2, 5)),
        ("Transpose", {"axes": [1, 0, 2]}, [(2, 3, 4), (3,)], (3, 2, 4)),
        ("Transpose", {}, [(2, 3, 4), (3,)], None),
        ("ConcatV2", {"axes": [1]}, [(2, 3), (2, 4), ()], (2, 7)),
        ("Sum", {"axes": [0, 1], "keep_dims": True}, [(2, 3, 4), (2,)], (1, 1, 4)),
        ("Sum", {"axes": [0, 2]}, [(2, 3, 4), (2,)], (3,)),
        ("BiasAddGrad", {"data_format": "NHWC"}, [(2, 3, 4)], (4,)),
        ("Unknown", {}, [(2, 3)], None),
        ("Add", {}, [], None),
    ],
)
def test_shapes_that_tensorflow_leaves_open_are_inferred(
    op_type: str,
    given: dict[str, Any],
    inputs: list[tuple[int, ...]],
    expected: tuple[int, ...] | None,
) -> None:
    assert infer(op_type, given, inputs, 0) == expected


@pytest.mark.parametrize(
    "op_type, given, inputs, shape, expected",
    [
        ("Relu", {}, [((8, 4), 0)], (8, 4), 0),
        ("AddV2", {}, [((8, 4), 0), ((4,), None)], (8, 4), 0),
        ("AddV2", {}, [((4,), None), ((8, 4), 0)], (8, 4), 0),
        ("MatMul", {}, [((8, 4), 0), ((4, 2), None)], (8, 2), 0),
        # The gradient of weights sums over the batch, even where a dimension is as large.
        ("MatMul", {"transpose_a": True}, [((8, 8), 0), ((8, 2), 0)], (8, 2), None),
        ("Conv2DBackpropFilter", {}, [((8, 5, 5, 8), 0), ((8, 5, 5, 8), 0)], (3, 3, 8, 8), None),
        ("BiasAddGrad", {}, [((8, 8), 0)], (8,), None),
        ("Mean", {"axes": [1]}, [((8, 4), 0)], (8,), 0),
        ("Mean", {"axes": [0]}, [((8, 8), 0)], (8,), None),
        ("Mean", {"axes": [0]}, [((5, 8), 1)], (8,), 0),
        ("Mean", {"axes": [0], "keep_dims": True}, [((5, 8), 1)], (1, 8), 1),
        ("Transpose", {"axes": [1, 0, 2]}, [((8, 6, 3), 0)], (6, 8, 3), 1),
        ("Reshape", {}, [((8, 6, 3), 0)], (48, 3), 0),
        ("Reshape", {}, [((48, 3), 0)], (8, 6, 3), 0),
        ("Reshape", {}, [((8, 6), 0)], (1, 8, 6), 1),
        ("Reshape", {}, [((8, 6), 0)], (), None),
        ("Squeeze", {}, [((8, 1, 3), 0)], (8, 3), 0),
        ("FusedBatchNormV3", {}, [((8, 5, 5, 8), 0)], (8, 5, 5, 8), 0),
    ],
)
def test_the_batch_dimension_is_found(
    op_type: str,
    given: dict[str, Any],
    inputs: list[tuple[tuple[int, ...], int | None]],
    shape: tuple[int, ...],
    expected: int | None,
) -> None:
    assert batched_dimension(op_type, given, inputs, 0, shape) == expected


def test_statistics_of_a_normalization_do_not_grow() -> None:
    assert batched_dimension("FusedBatchNormV3", {}, [((8, 5, 5, 8), 0)], 1, (8,)) is None
