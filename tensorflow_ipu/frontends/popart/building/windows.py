"""Checks of convolutions, pools and paddings when they are added to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from tensorflow_ipu.frontends.popart.ops import windows

_OPS = ("Conv", "MaxPool", "AveragePool", "MultiConv", "Pad")
_Shapes = Callable[[str], "list[int] | None"]


def check_node(node: onnx.NodeProto | None, shape_of: _Shapes) -> None:
    """Refuses a window that does not fit the data, if the shape of that is known.

    Args:
        node: the node.
        shape_of: returns the shape of a tensor.

    Raises:
        popart_exception: If it does not fit.
    """
    if node is None or node.op_type not in _OPS:
        return
    given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Pad":
        shape = shape_of(node.input[0])
        if shape and "pads" in given:
            windows.check_pads(given["pads"], len(shape))
        return
    if node.op_type != "MultiConv":
        _check(node.op_type, node.input, given, shape_of)
        return
    for number, inputs in enumerate(windows.parts(node.input, given["numInputs"])):
        own = {}
        for name in ("strides", "pads", "dilations", "inDilations"):
            counts = given.get(f"{name}Lengths")
            own[name] = windows.parts(given[name], counts)[number] if counts else None
        _check(node.op_type, inputs, own, shape_of)


def _check(type_: str, inputs: Sequence[str], given: Mapping[str, Any], shape_of: _Shapes) -> None:
    """Refuses a window over one tensor."""
    shape = shape_of(inputs[0])
    if not shape:
        return
    kernel, sizes = given.get("kernel_shape"), shape[2:]
    if type_.endswith("Conv"):
        weights = shape_of(inputs[1])
        if not weights:
            return
        windows.check_kernel(kernel, weights[2:], inputs[1])
        kernel = weights[2:]
    if given.get("inDilations"):
        sizes = [(size - 1) * step + 1 for size, step in zip(sizes, given["inDilations"])]
    windows.check(
        type_,
        sizes,
        kernel or [],
        given.get("strides"),
        given.get("pads"),
        given.get("dilations"),
    )
