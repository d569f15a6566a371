"""Errors of ops about inputs whose values have to be known when a session is made."""

from __future__ import annotations

import onnx

from tensorflow_ipu.frontends.popart.ops import kinds

# What the inputs are called where the op and ONNX's schema have other names.
_CLIP = {1: "min", 2: "max"}


def unknown_input(kind: kinds.OpKind, node: onnx.NodeProto, position: int) -> str:
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


def _name(kind: kinds.OpKind, position: int) -> str:
    """Returns ONNX's name of an input."""
    schema = kinds.schema_of(kind)
    if schema is None or position >= len(schema.inputs):
        return kind.inputs[min(position, len(kind.inputs) - 1)]
    return str(schema.inputs[position].name)
