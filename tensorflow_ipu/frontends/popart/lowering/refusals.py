"""Inputs that TensorFlow refuses, in words about the node of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.frontends.popart.errors import popart_exception, poplar_exception
from tensorflow_ipu.frontends.popart.lowering import nodes
from tensorflow_ipu.frontends.popart.ops import texts
from tensorflow_ipu.frontends.popart.ops.kinds import OpKind

# Words of TensorFlow about the type of an input.
_OF_TYPES = re.compile(r"not in list of allowed values|Invalid dtype|Expected (bool|u?int\d+),")
# Where TensorFlow's text turns to its own nodes.
_OWN_NODE = re.compile(r" for '\{\{node .*", re.DOTALL)


def handled(
    kind: OpKind,
    node: onnx.NodeProto,
    arguments: Sequence[Any],
    attributes: Mapping[str, Any],
    error: Exception,
) -> Any:
    """Returns the outputs of a node whose types only the compiler refuses, or raises.

    A session is made of shapes alone. So it can be made of an op that does not take a type.

    Args:
        kind: the op.
        node: the node.
        arguments: its inputs.
        attributes: its attributes.
        error: what TensorFlow said.

    Raises:
        popart_exception: If the inputs do not fit the op.
        poplar_exception: If a program is compiled of a type that the op does not take.
    """
    refused = _refused_types(arguments) if _OF_TYPES.search(str(error)) else []
    if refused and (tf.executing_eagerly() or trace.in_cluster()):
        names = " and ".join(sorted({texts.type_name(dtype) for dtype in refused}))
        text = f"{node.op_type} does not take {names}. Add a Cast to FLOAT before it."
        raise _noted(poplar_exception(text), node) from error
    if refused:
        try:
            return _as_floats(kind, arguments, attributes, refused[0])
        except (ValueError, TypeError, tf.errors.OpError, popart_exception):
            pass  # not the type alone: the first error says what it is
    said = _OWN_NODE.sub("", str(error)).rstrip(".")
    given = ", ".join(
        "none" if x is None else texts.info(x) for x in arguments if x is None or tf.is_tensor(x)
    )
    raise _noted(
        popart_exception(f"The inputs of {node.op_type} do not fit it: {said}. Received: {given}"),
        node,
    ) from error


def _noted(error: Exception, node: onnx.NodeProto) -> Exception:
    nodes.add_note(error, node)
    return error


def _refused_types(arguments: Sequence[Any]) -> list[Any]:
    """Returns the types of inputs that are not floating-point numbers."""
    return [x.dtype for x in arguments if tf.is_tensor(x) and not x.dtype.is_floating]


def _as_floats(
    kind: OpKind, arguments: Sequence[Any], attributes: Mapping[str, Any], dtype: Any
) -> list[Any]:
    """Returns the outputs of an op of float32, in the type that it does not take."""
    wide = [
        tf.cast(x, tf.float32) if tf.is_tensor(x) and x.dtype == dtype else x for x in arguments
    ]
    found = kind.compute(*wide, **attributes)
    outputs = found if isinstance(found, (list, tuple)) else [found]
    return [tf.cast(x, dtype) if x.dtype == tf.float32 else x for x in outputs]
