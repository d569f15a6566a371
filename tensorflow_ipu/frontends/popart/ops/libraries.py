"""Ops of users' C++ libraries as ops of models."""

from __future__ import annotations

import itertools
import json
import weakref
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

# The domain of nodes that stand for an op of a library, and the attribute with its number.
_DOMAIN, _NUMBER = "popart.cpp", "__cpp_op"
_numbers = itertools.count()
_ops: weakref.WeakValueDictionary[int, CppOp] = weakref.WeakValueDictionary()
# Elements of constants that factories of ops may read.
_READABLE = 1024


def find(domain: str, type_: str, version: int) -> RegisteredOp | None:
    """Returns the record of an op that a library has registered; None if none has.

    Args:
        domain: the domain.
        type_: the type.
        version: the version of the domain in the model.
    """
    if domain == _DOMAIN:
        return RegisteredOp(domain, type_, 1, _compute_made, takes_context=True, reads_node=True)
    since = ops.version_of(domain, type_, version) if library.is_installed() else 0
    if not since:
        return None
    identifier = (domain, type_, since)

    def compute(*inputs: Any, context: Context) -> list[Any]:
        return _compute(identifier, inputs, context)

    return RegisteredOp(domain, type_, since, compute, takes_context=True, reads_node=True)


registry.add_finder(find)


def has_op(node: onnx.NodeProto, version: int) -> bool:
    """Returns whether a node is of an op that a library has registered.

    Args:
        node: the node.
        version: the version of the domain in the model.
    """
    return registry.find(node.domain, node.op_type, version).reads_node


def node_of(op: CppOp, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """Returns a node that stands for an op as long as the op is there.

    Args:
        op: the op, with its attributes.
        name: the name of the node.
        inputs: ids of its inputs; "" for those that are missing.
        outputs: ids of its outputs.
    """
    number = next(_numbers)
    _ops[number] = op
    node = helper.make_node(op.type, inputs, outputs, name, domain=_DOMAIN)
    node.attribute.append(helper.make_attribute(_NUMBER, number))
    return node


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
    options = dict(context.numerics.for_libraries)
    ir.set_options(options)
    names = ["" if tensor is None else f"in{i}" for i, tensor in enumerate(inputs)]
    for name, tensor in zip(names, inputs):
        if tensor is not None:
            ir.add_tensor(name, ops.type_name(tensor.dtype), tensor.shape, _constant(tensor))
    outputs = [name and f"out{i}" for i, name in enumerate(context.node.output)]
    op = ir.create_op(identifier, context.node.name, attributes, names, outputs)
    given = [tensor for tensor in inputs if tensor is not None]
    session = f"replicas={context.replicas} training={context.is_training} {options}"
    title = f"{op.identifier} {_text(attributes)} {op.inputs} {session}"
    return _results(op, given, title, context)


def _compute_made(*inputs: Any, context: Context) -> list[Any]:
    """Puts the program of an op that is there into the function in scope."""
    (number,) = (a.i for a in context.node.attribute if a.name == _NUMBER)
    given = [tensor for tensor in inputs if tensor is not None]
    return _results(_ops[number], given, None, context)


def _results(op: CppOp, inputs: Sequence[Any], title: str | None, context: Context) -> list[Any]:
    services = context.services
    seed = None if services is None else services.seed
    if op.needs_seed and seed is not None:
        inputs = op.connect_seed(seed(), inputs)
    if op.modified:
        return _modify(op, inputs, title, context)
    return op.call(inputs, title, seed)


def _modify(op: CppOp, inputs: Sequence[Any], title: str | None, context: Context) -> list[Any]:
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
