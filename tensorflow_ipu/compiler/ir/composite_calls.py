"""Calls of functions that a plan takes for one op: `call`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import func_graph as func_graph_lib

from tensorflow_ipu.compiler.ir.program import COMPOSITE_ATTRIBUTE


def call(
    name: str,
    compute: Callable[..., Any],
    inputs: Sequence[Any],
    said: Callable[[Sequence[Any]], Mapping[str, Any]],
) -> list[Any]:
    """Puts a computation into a function of its own, and calls that in the graph in scope.

    Args:
        name: name of the function, which no other has.
        compute: computes the results from placeholders for the inputs; without state.
        inputs: tensors.
        said: returns the value of `COMPOSITE_ATTRIBUTE` for the results of the function: the op
            that plans put instead of the call.

    Returns:
        The results.
    """
    graph = tf.compat.v1.get_default_graph()
    scope, attributes = graph.get_name_scope(), dict(graph._attr_scope_map)

    def build(*placeholders: Any) -> list[Any]:
        with tf.name_scope(scope + "/" if scope else None):
            with tf.compat.v1.get_default_graph()._attr_scope(attributes):
                results = compute(*placeholders)
                results = list(results) if isinstance(results, (list, tuple)) else [results]
                return [tf.identity(result) for result in results]

    specs = [tf.TensorSpec(value.shape, value.dtype) for value in inputs]
    traced = func_graph_lib.func_graph_from_py_func(
        name, build, specs, {}, add_control_dependencies=False
    )
    atomic = atomic_function.from_func_graph(f"__ipu_{name}", traced, {})
    function = ConcreteFunction(atomic, shared_func_graph=True)
    mark = attr_value_pb2.AttrValue(
        s=json.dumps(dict(said(traced.outputs)), sort_keys=True).encode()
    )
    with graph._attr_scope({COMPOSITE_ATTRIBUTE: mark}):
        return list(function._call_flat(list(inputs), []))
