"""Ops that a program computes with several of TensorFlow's, and a plan takes for one op."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import func_graph as func_graph_lib

from tensorflow_ipu.compiler.ir.program import COMPOSITE_ATTRIBUTE
from tensorflow_ipu.frontends.popxl.core.op import Op


def said_of(op: Op) -> Mapping[str, Any] | None:
    """Returns what a plan takes an op for, as `COMPOSITE_ATTRIBUTE` says it; None for itself.

    Args:
        op: the op.
    """
    if op.kind.composite is None:
        return None
    specs = [tensor.spec for tensor in op.inputs]
    found: Mapping[str, Any] | None = op.kind.composite(specs, **op.attributes)
    return found


def call(op: Op, said: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """Puts what an op computes into a function of its own, and calls that in the one in scope.

    Args:
        op: the op, which only computes.
        said: what a plan takes it for.
        inputs: what its inputs hold.

    Returns:
        The results, as `OpKind.compute` returns them.
    """
    compute = op.kind.compute
    if compute is None:
        raise AssertionError(f"{op!r} has no `compute` to put into a function.")
    graph = tf.compat.v1.get_default_graph()
    scope, attributes = graph.get_name_scope(), dict(graph._attr_scope_map)

    def build(*placeholders: Any) -> list[Any]:
        with tf.name_scope(scope + "/"):
            with tf.compat.v1.get_default_graph()._attr_scope(attributes):
                results = compute(*placeholders, **op.attributes)
                results = list(results) if isinstance(results, (list, tuple)) else [results]
                return [tf.identity(result) for result in results]

    name = f"popxl_{op.kind.type}_{op.graph.ir.id}_{op.id}"
    specs = [tf.TensorSpec(value.shape, value.dtype) for value in inputs]
    traced = func_graph_lib.func_graph_from_py_func(
        name, build, specs, {}, add_control_dependencies=False
    )
    atomic = atomic_function.from_func_graph(f"__ipu_{name}", traced, {})
    function = ConcreteFunction(atomic, shared_func_graph=True)
    mark = attr_value_pb2.AttrValue(s=json.dumps(dict(said), sort_keys=True).encode())
    with graph._attr_scope({COMPOSITE_ATTRIBUTE: mark}):
        return list(function._call_flat(list(inputs), []))
