"""Ops of users' C++ libraries as ops of models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import tensorflow as tf
from onnx import helper

from tensorflow_ipu.frontends.cpp_ops import library, ops
from tensorflow_ipu.frontends.cpp_ops.ops import CppOp
from tensorflow_ipu.frontends.popart import datatypes
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
    since = ops.version_of(domain, type_, version) if library.is_installed() else 0
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


def types_of(
    node: onnx.NodeProto, type_of: Callable[[str], onnx.TypeProto | None], version: int
) -> dict[str, onnx.TypeProto] | None:
    """Runs the shape inference function of a node; returns None if no library has one.

    Args:
        node: the node.
        type_of: returns the type of a tensor.
        version: the version of the domain in the model.

    Returns:
        The types of its outputs.
    """
    if not library.is_installed():
        return None
    inputs = [_type_and_shape(type_of(name)) for name in node.input]
    identifier = (node.domain, node.op_type, version)
    found = ops.infer_shapes(identifier, attributes_of(node), inputs, len(node.output))
    if found is None:
        return None
    return {
        name: helper.make_tensor_type_proto(datatypes.named(type_).onnx, shape)
        for name, (type_, shape) in zip(node.output, found)
    }


def _type_and_shape(type_: onnx.TypeProto | None) -> tuple[str, list[int]] | None:
    if type_ is None:
        return None
    tensor = type_.tensor_type
    return datatypes.of_onnx(tensor.elem_type).name, [d.dim_value for d in tensor.shape.dim]


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
    session = f"replicas={context.replicas} training={context.is_training}"
    title = f"{op.identifier} {_text(attributes)} {op.inputs} {session}"
    return _modify(op, given, title, context) if op.modified else op.call(given, title)


def _modify(op: CppOp, inputs: Sequence[Any], title: str, context: Context) -> list[Any]:
    """Runs an op that modifies inputs, and writes those that are weights. It has no gradient."""
    results = op.run([tf.stop_gradient(tensor) for tensor in inputs], title)
    count = len(op.outputs)
    for index, value in zip(op.modified, results[count:]):
        name = context.node.input[index]
        if context.is_weight(name) and context.services is not None:
            context.services.assign(name, value)
    return results[:count]


def _constant(tensor: Any) -> Any:
    """Returns the value of a small constant; None if the tensor is none."""
    return tf.get_static_value(tensor) if tensor.shape.num_elements() <= _READABLE else None


def _text(attributes: Mapping[str, Any]) -> str:
    """Returns attributes as text that differs where they do, without annotations."""
    own = {name: value for name, value in attributes.items() if not name.startswith("__")}
    return json.dumps(own, sort_keys=True, default=repr)
