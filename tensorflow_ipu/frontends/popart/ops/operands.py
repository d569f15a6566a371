"""Checks of a node's operands (types, broadcasting, axes), and texts of errors about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx
import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import registry

# --- Texts ---

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


def shape_text(sizes: Iterable[int]) -> str:
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


def tensor_text(tensor: Any) -> str:
    """Returns type and shape of a tensor, such as `INT32   [2 5]`.

    Args:
        tensor: the tensor.
    """
    return f"{type_name(tensor.dtype).ljust(8)}{shape_text(tensor.shape)}"


# What the inputs are called where the op and ONNX's schema have other names.
_CLIP = {1: "min", 2: "max"}


def unknown_input(kind: registry.RegisteredOp, node: onnx.NodeProto, position: int) -> str:
    """Returns the message for an input with an unknown value.

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


def _name(kind: registry.RegisteredOp, position: int) -> str:
    """Returns ONNX's name of an input."""
    schema = registry.schema_of(kind)
    if schema is None or position >= len(schema.inputs):
        return kind.inputs[min(position, len(kind.inputs) - 1)]
    return str(schema.inputs[position].name)


# --- Broadcasting and axes ---


def check(*tensors: Any) -> None:
    """Refuses inputs of other types, or shapes that do not broadcast.

    Args:
        *tensors: the inputs.

    Raises:
        popart_exception: If they do not fit each other.
    """
    for left, right in zip(tensors, tensors[1:]):
        if left.dtype != right.dtype:
            types = " and ".join(type_name(tensor.dtype) for tensor in (left, right))
            shapes = " and ".join(shape_text(tensor.shape) for tensor in (left, right))
            raise popart_exception(
                f"np broadcasting failed on '{OP}', incompatible types {types} (shapes {shapes})"
            )
        try:
            tf.broadcast_static_shape(left.shape, right.shape)
        except ValueError:
            raise popart_exception(
                f"np broadcasting failed on '{OP}', frames {shape_text(left.shape)} and "
                f"{shape_text(right.shape)} are not aligned"
            ) from None


def aligned(x: Any, y: Any, axis: int | None, broadcast: int) -> tuple[Any, Any]:
    """Aligns two inputs for ops before opset 7, which broadcast on request.

    Args:
        x: the first input.
        y: the second one.
        axis: the dimension of `x` that the first one of `y` goes with; the last ones by default.
        broadcast: whether `y` broadcasts.
    """
    if broadcast and axis is not None:
        trailing = x.shape.rank - (axis % max(1, x.shape.rank)) - y.shape.rank
        y = tf.reshape(y, [*y.shape.as_list(), *[1] * trailing])
    check(x, y)
    return x, y


def axis_of(axis: int, rank: int, name: str = "Axis") -> int:
    """Returns an axis counted from the front.

    Args:
        axis: the axis; negative ones count from the back.
        rank: number of dimensions.
        name: its name in errors.

    Raises:
        popart_exception: If there is no such dimension.
    """
    if not -max(rank, 1) <= axis < max(rank, 1):
        bounds = f"[{-max(rank, 1)}, {max(rank, 1) - 1}]"
        raise popart_exception(f"{name} {axis} is out of acceptable range {bounds}")
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int] | None, rank: int) -> list[int]:
    """Returns axes counted from the front; all if there are none.

    Args:
        axes: the axes.
        rank: number of dimensions.
    """
    return [axis_of(int(a), rank) for a in axes] if axes is not None else list(range(rank))
