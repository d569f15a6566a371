"""Tracing of Python functions: into Clusters, and into calls that a plan takes for one op."""

from __future__ import annotations

import contextlib
import contextvars
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context, lift_to_graph
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import ops, tensor_spec, tensor_util
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import variable_scope

from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.ir.program import COMPOSITE_ATTRIBUTE
from tensorflow_ipu.runtime import interpreter

# On an argument of a program: its value, if that is a constant.
_KNOWN = "_ipu_known_value"
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("ipu_cluster_depth", default=0)


@contextlib.contextmanager
def cluster_scope() -> Iterator[None]:
    """Context: ops traced inside become part of a Cluster."""
    token = _depth.set(_depth.get() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def in_cluster() -> bool:
    """Returns whether a Cluster is being traced now."""
    return _depth.get() > 0


def cluster_name(function: Callable[..., Any]) -> str:
    """Returns a name for a Cluster made of `function`, fit for TensorFlow's function names."""
    return re.sub(r"\W+", "_", getattr(function, "__name__", type(function).__name__)).strip("_")


def known_number(tensor: tensor_lib.Tensor) -> int | None:
    """Returns the value of an integer scalar that is known at trace time; else None.

    Args:
        tensor: a constant, or an argument of the program: a constant around it, which a session
            can still be fed another value for.
    """
    value = tensor_util.constant_value(tensor)
    value = getattr(tensor, _KNOWN, None) if value is None else value
    return None if value is None else int(value)


def trace(
    function: Callable[..., tuple[Sequence[tensor_lib.Tensor], Sequence[ops.Operation]]],
    inputs: Sequence[tensor_lib.Tensor],
    name: str,
) -> Cluster:
    """Traces `function` as TensorFlow 1 would build it: no automatic control dependencies.

    Args:
        function: takes one placeholder per input; returns tensors, and operations that have to
            run whenever the Cluster does.
        inputs: tensors whose types and shapes the placeholders get.
        name: name for the Cluster.

    Returns:
        The Cluster.
    """
    with interpreter.TRACING:
        return _trace(function, inputs, name)


def _trace(
    function: Callable[..., tuple[Sequence[tensor_lib.Tensor], Sequence[ops.Operation]]],
    inputs: Sequence[tensor_lib.Tensor],
    name: str,
) -> Cluster:
    operations: list[ops.Operation] = []

    def body(*placeholders: tensor_lib.Tensor) -> list[tensor_lib.Tensor]:
        for placeholder, value in zip(placeholders, inputs):
            if value.dtype.is_integer and value.shape.rank == 0:
                setattr(placeholder, _KNOWN, tensor_util.constant_value(value))
        tensors, must_run = function(*placeholders)
        operations.extend(must_run)
        return list(tensors)

    with (
        cluster_scope(),
        _outermost_graph(),
        variable_scope.variable_creator_scope(_lift_initial_value),
    ):
        graph = func_graph_lib.func_graph_from_py_func(
            name,
            body,
            [tensor_spec.TensorSpec.from_tensor(tensor) for tensor in inputs],
            {},
            add_control_dependencies=False,
        )
    graph.control_outputs.extend(op for op in operations if op.graph is graph)
    return Cluster.from_graph(graph, name, inputs=inputs)


def _outermost_graph() -> contextlib.AbstractContextManager[Any]:
    """Makes TensorFlow lift variables into the graph in scope, also if that is the implicit one.

    After `disable_v2_behavior` it would make them eagerly as long as no graph was entered.
    """
    if context.executing_eagerly():
        return contextlib.nullcontext()
    graph: contextlib.AbstractContextManager[Any] = ops.get_default_graph().as_default()
    return graph


def _lift_initial_value(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    """Creates a variable outside the Cluster, lifting the ops of its initial value."""
    value = kwargs.get("initial_value")
    if not isinstance(value, tensor_lib.Tensor) or not ops.is_symbolic_tensor(value):
        return next_creator(**kwargs)
    with ops.init_scope():
        outer = None if context.executing_eagerly() else ops.get_default_graph()
    if outer is not None and value.graph is not outer:
        with ops.init_scope():
            kwargs["initial_value"] = lift_to_graph.lift_to_graph([value], outer)[value]
    return next_creator(**kwargs)


# --- Calls of functions that a plan takes for one op ---


def call_composite(
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
