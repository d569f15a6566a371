"""Checks of convolutions and pools when they are added to a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import helper

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import windows

_OPS = ("Conv", "MaxPool", "AveragePool")


def check_node(node: onnx.NodeProto | None, shape_of: Callable[[str], list[int] | None]) -> None:
    """Refuses a window that does not fit the data, if the shape of that is known.

    Args:
        node: the node.
        shape_of: returns the shape of a tensor.

    Raises:
        popart_exception: If it does not fit.
    """
    if node is None or node.op_type not in _OPS:
        return
    shape = shape_of(node.input[0])
    if not shape:
        return
    given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kernel = given.get("kernel_shape")
    if node.op_type == "Conv":
        weights = shape_of(node.input[1])
        if not weights:
            return
        if kernel and list(kernel) != weights[2:]:
            raise popart_exception(
                f"Conv: kernel_shape, {list(kernel)}, does not match inferred shape from weight "
                f"input, {weights[2:]}."
            )
        kernel = weights[2:]
    windows.check(
        node.op_type,
        shape[2:],
        kernel or [],
        given.get("strides"),
        given.get("pads"),
        given.get("dilations"),
    )
