"""Tests of the geometry of convolution ops."""

from __future__ import annotations

import pytest

from tensorflow_ipu.costs.contractions.conv_geometry import geometry
from tensorflow_ipu.costs.cost import OpSpec, TensorType


def op(op_type, inputs, outputs, **attributes):
    return OpSpec(
        op_type,
        tuple(TensorType("float32", shape) for shape in inputs),
        tuple(TensorType("float32", shape) for shape in outputs),
        attributes,
    )


def test_the_geometry_of_a_forward_convolution_is_read():
    read = geometry(
        op(
            "Conv2D",
            [(2, 6, 20, 30), (5, 3, 2, 9)],
            [(2, 9, 4, 10)],
            strides=[1, 1, 5, 3],
            dilations=[1, 1, 2, 4],
            data_format="NCHW",
        )
    )
    assert read == (
        *("forward", "float32", 2),
        *((20, 30), (4, 10), (5, 3), (5, 3), (2, 4)),
        *(3, 2, 3),
    )
    assert (read.positions, read.rows, read.stored, read.taps) == (80, 8, 1200, 15)


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs"),
    [
        ("Input", [(4,), (3, 3, 6, 8), (2, 5, 5, 8)], [(2, 10, 10, 6)]),
        ("Filter", [(2, 10, 10, 6), (4,), (2, 5, 5, 8)], [(3, 3, 6, 8)]),
    ],
)
def test_geometry_of_gradients_is_that_of_the_convolution(kind, inputs, outputs):
    read = geometry(op(f"Conv2DBackprop{kind}", inputs, outputs, strides=[1, 2, 2, 1]))
    assert read[2:] == (2, (10, 10), (5, 5), (3, 3), (2, 2), (1, 1), 1, 6, 8)
    assert read.kind == kind.lower()


def test_depthwise_convolution_has_a_group_for_each_channel():
    read = geometry(op("DepthwiseConv2dNative", [(1, 4, 4, 6), (3, 3, 6, 2)], [(1, 4, 4, 12)]))
    assert (read.groups, read.inputs, read.outputs) == (6, 1, 2)


X, F, Y = (1, 4, 4, 6), (3, 3, 6, 8), (1, 4, 4, 8)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (op("MatMul", [X, F], [Y]), "one of Conv2D, .* received 'MatMul'"),
        (op("Conv2D", [X], [Y]), "expected 2 inputs and a result; received 1 inputs"),
        (op("Conv2DBackpropInput", [F, Y], [X]), "expected 3 inputs"),
        (op("Conv2D", [X[1:], F], [Y]), r"an input of 4 dimensions; received \(4, 4, 6\)"),
        (op("Conv3D", [X, F], [Y]), "5 dimensions"),
        (op("Conv2D", [X, (3, 3, 4, 8)], [Y]), "multiple of the filter's.* received 6 channels"),
        (op("Conv2D", [X, (3, 3, 2, 8)], [Y]), "output channels a multiple"),
        (op("Conv2D", [X, F], [(1, 4, 4, 9)]), "expected 8 output channels; received 9"),
        (op("DepthwiseConv2dNative", [X, F], [Y]), "a filter of 6 channels that makes 8"),
        (op("Conv2D", [X, F], [Y], strides=[1, 2]), r"expected 4 strides; received \[1, 2\]"),
        (op("Conv2D", [X, F], [Y], data_format="NHCW"), "NHWC, NCHW, .* received 'NHCW'"),
    ],
)
def test_malformed_convolutions_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        geometry(spec)
