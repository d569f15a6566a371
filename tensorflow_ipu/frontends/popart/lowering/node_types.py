"""Types of what a node makes, found by putting it alone into a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx
import tensorflow as tf
from onnx import helper, numpy_helper

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering.graphs import Lowering
from tensorflow_ipu.frontends.popart.lowering.services import ProgramServices
from tensorflow_ipu.frontends.popart.lowering.values import Value
from tensorflow_ipu.frontends.popart.model import imports
from tensorflow_ipu.frontends.popart.ops.kinds import Context

# Ops of which the original's builder knows no shapes.
_WITHOUT = (
    *("ScaledAdd", "NormalizeImage", "ReplicatedAllReduce", "ReplicatedReduceScatter"),
    *("PackedDataBlock", "IncrementMod", "Abort"),
)


def of_node(
    node: onnx.NodeProto,
    type_of: Callable[[str], onnx.TypeProto | None],
    data_of: Callable[[str], onnx.TensorProto | None],
    opsets: Mapping[str, int],
) -> dict[str, onnx.TypeProto] | None:
    """Returns the types of the outputs of a node; None if there is no rule.

    Args:
        node: the node.
        type_of: returns the type of a tensor.
        data_of: returns the value of a tensor, if it is known.
        opsets: versions of the domains.
    """
    if node.op_type in _WITHOUT:
        return None
    if node.op_type in _RULES:
        return _RULES[node.op_type](node, type_of(node.input[0]))
    with tf.Graph().as_default():
        lowering = Lowering(opsets, Context(services=ProgramServices()), knows_weights=False)
        for name in imports.taken_by(node):
            type_ = type_of(name)
            if type_ is not None:
                lowering.values[name] = _placeholder(type_, data_of(name))
        try:
            lowering.run([node])
        except popart_exception:
            return None
        return {
            name: helper.make_tensor_type_proto(
                datatypes.of_tf(lowering.value(name).dtype).onnx, lowering.value(name).shape
            )
            for name in node.output
            if name in lowering.values
        }


def _subsampled(node: onnx.NodeProto, type_: onnx.TypeProto) -> dict[str, onnx.TypeProto]:
    """Returns the type of a Subsample: the original's builder rounds sizes down, its run up."""
    (strides,) = (attribute.ints for attribute in node.attribute if attribute.name == "strides")
    sizes = [dim.dim_value for dim in type_.tensor_type.shape.dim]
    shape = [size // stride for size, stride in zip(sizes, strides)]
    return {node.output[0]: helper.make_tensor_type_proto(type_.tensor_type.elem_type, shape)}


def _updated(node: onnx.NodeProto, type_: onnx.TypeProto) -> dict[str, onnx.TypeProto]:
    """Returns the type of a DynamicUpdate: that of the tensor, whatever is written into it."""
    return {node.output[0]: type_}


# Ops whose types are not those of what they compute, or known without it.
_RULES: Mapping[str, Callable[[onnx.NodeProto, Any], dict[str, onnx.TypeProto]]] = {
    "Subsample": _subsampled,
    "DynamicUpdate": _updated,
}


def _placeholder(type_: onnx.TypeProto, data: onnx.TensorProto | None) -> Value:
    tensor = type_.tensor_type
    shape = [dim.dim_value for dim in tensor.shape.dim]
    placeholder = tf.compat.v1.placeholder(datatypes.of_onnx(tensor.elem_type).tf, shape)
    return Value(placeholder, None if data is None else numpy_helper.to_array(data))
