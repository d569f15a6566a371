"""Ops of users' C++ libraries as ops of models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import tensorflow as tf
from onnx import helper

from tensorflow_ipu.frontends.cpp_ops import ops
from tensorflow_ipu.frontends.popart.ops import registry
from tensorflow_ipu.frontends.popart.ops.context import Context
from tensorflow_ipu.frontends.popart.ops.registry import RegisteredOp

# Elements of constants that factories of ops may read.
_READABLE = 1024


def find(domain: str, type_: str, version: int) -> RegisteredOp | None:
    """Returns the record of an op that a library has registered; None if none has.

    Args:
        domain: the domain.
        type_: the type.
        version: the version of the domain in the model.
    """
    since = ops.version_of(domain, type_, version)
    if not since:
        return None
    identifier = (domain, type_, since)

    def compute(*inputs: Any, context: Context) -> list[Any]:
        return _compute(identifier, inputs, context)

    return RegisteredOp(domain, type_, since, compute, takes_context=True, reads_node=True)


registry.add_finder(find)


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Returns the attributes of a node by name, without graphs and tensors.

    Args:
        node: the node.
    """
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    plain = (int, float, str, bytes, list)
    return {name: value for name, value in values.items() if isinstance(value, plain)}


def _compute(
    identifier: tuple[str, str, int], inputs: Sequence[Any], context: Context
) -> list[Any]:
    """Makes the op of a node, and puts its program into the function in scope."""
    attributes = attributes_of(context.node)
    ir = ops.CppIr(context.replicas, context.is_training)
    names = ["" if tensor is None else f"in{i}" for i, tensor in enumerate(inputs)]
    for name, tensor in zip(names, inputs):
        if tensor is not None:
            ir.add_tensor(name, ops.type_name(tensor.dtype), tensor.shape, _constant(tensor))
    outputs = [name and f"out{i}" for i, name in enumerate(context.node.output)]
    op = ir.create_op(identifier, context.node.name, attributes, names, outputs)
    given = [tensor for tensor in inputs if tensor is not None]
    title = f"{op.identifier} {_text(attributes)} {op.inputs} replicas={context.replicas}"
    return op.call(given, title)


def _constant(tensor: Any) -> Any:
    """Returns the value of a small constant; None if the tensor is none."""
    return tf.get_static_value(tensor) if tensor.shape.num_elements() <= _READABLE else None


def _text(attributes: Mapping[str, Any]) -> str:
    """Returns attributes as text that differs where they do, without annotations."""
    own = {name: value for name, value in attributes.items() if not name.startswith("__")}
    return json.dumps(own, sort_keys=True, default=repr)
