"""Texts of errors about nodes: types, shapes, inputs whose values must be known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.ops import kinds

#: Stands for the node in the error of an op, with its inputs and outputs.
OP = "<op>"
#: Stands for domain, type and version of the op.
KIND = "<kind>"


def filled(text: str, node: onnx.NodeProto, since: int) -> str:
    """Returns the text of an error with the names of a node.

    Args:
        text: the text.
        node: the node.
        since: version of the op.
    """
    kind = f"{node.domain or 'ai.onnx'}.{node.op_type}:{since}"
    if OP in text:
        text = text.replace(
            OP,
            f"Op({node.name or kind}, inputs=[{', '.join(node.input)}], "
            f"outputs=[{', '.join(node.output)}])",
        )
    return text.replace(KIND, kind)


def shape(sizes: Iterable[int]) -> str:
    """Returns a shape such as `[3 4]`.

    Args:
        sizes: the sizes of its dimensions.
    """
    return f"[{' '.join(str(int(size)) for size in sizes)}]"


def type_name(dtype: Any) -> str:
    """Returns PopART's name of a type of TensorFlow's.

    Args:
        dtype: the type.
    """
    return datatypes.of_tf(dtype).name


def info(tensor: Any) -> str:
    """Returns type and shape of a tensor, such as `INT32   [2 5]`.

    Args:
        tensor: the tensor.
    """
    return f"{type_name(tensor.dtype).ljust(8)}{shape(tensor.shape)}"


# What the inputs are called where the op and ONNX's schema have other names.
_CLIP = {1: "min", 2: "max"}


def unknown_input(kind: kinds.RegisteredOp, node: onnx.NodeProto, position: int) -> str:
    """Returns the message for an input whose value is not known.

    Args:
        kind: the op.
        node: the node.
        position: position of the input.
    """
    name, tensor = _name(kind, position), node.input[position]
    identifier = f"{kind.domain or 'ai.onnx'}.{kind.type}:{kind.since}"
    if kind.type == "Clip":
        return (
            f"Op {node.name}({identifier}), inputs=[{node.input[0]}] currently only supports "
            f"constant min/max parameters. Input '{_CLIP[position]}' ({tensor}) has no data."
        )
    if kind.type == "Tile":
        return f"The input '{name}' of {identifier}, {tensor}, must be of type Constant"
    return (
        f"Need the value of the {identifier} input '{name}' to determine the output shape, but was "
        "unable because [Tensor::getDataViaGraphTraversal] Could not work out tensor data for "
        f"{tensor}."
    )


def _name(kind: kinds.RegisteredOp, position: int) -> str:
    """Returns ONNX's name of an input."""
    schema = kinds.schema_of(kind)
    if schema is None or position >= len(schema.inputs):
        return kind.inputs[min(position, len(kind.inputs) - 1)]
    return str(schema.inputs[position].name)
