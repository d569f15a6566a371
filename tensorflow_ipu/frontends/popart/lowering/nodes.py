"""How errors and reports call a node of a model."""

from __future__ import annotations

import onnx

from tensorflow_ipu.frontends.popart import errors
from tensorflow_ipu.frontends.popart.debugging.context import LINE, SourceLocation, line_of


def named(node: onnx.NodeProto) -> str:
    """Returns what a node is called in errors, with the line that made it, if that is known.

    Args:
        node: the node.
    """
    place = line(node)
    return (
        f"the node {node.op_type}{f' {node.name}' if node.name else ''} ({', '.join(node.output)})"
        f"{f' at {place.fileName}:{place.lineNumber}' if place else ''}"
    )


def add_note(error: Exception, node: onnx.NodeProto) -> None:
    """Adds the name of a node, and the line that made it, to an error that is about it.

    Args:
        error: the error.
        node: the node.
    """
    errors.add_note(error, f"In {named(node)}.")


def scope_name(node: onnx.NodeProto) -> str:
    """Returns the name scope of the operations of a node.

    Args:
        node: the node.
    """
    name = node.name or node.op_type
    return "".join(c if c.isalnum() or c in "_./" else "_" for c in name).strip("_./") or "node"


def line(node: onnx.NodeProto) -> SourceLocation | None:
    """Returns the line of the program that made a node, if that is known.

    Args:
        node: the node.
    """
    number = next((attribute.i for attribute in node.attribute if attribute.name == LINE), 0)
    return line_of(number)
