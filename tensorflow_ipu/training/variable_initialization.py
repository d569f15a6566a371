"""Initial values of variables, moved from the IPU to the CPU in graph mode."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.distribute import values as distributed_values

_CPU = "/device:CPU:0"
_ANCHOR = "cpu"
_COLOCATION = "_class"
# Attributes that the IPU scopes put on ops to have them compiled.
_COMPILE_ATTRIBUTES = ("_XlaCompile", "_XlaScope", "_XlaSeparateCompiledGradients")


def move_variable_initialization_to_cpu(graph: tf.Graph | None = None) -> None:
    """Moves the ops that compute the initial values of variables to the CPU.

    To be called when all variables have been made and before the session is. Initial values are
    then computed by the host, so nothing is compiled for the IPU to initialise variables. Variables
    of a distribution strategy are left to it.

    Args:
        graph: the graph of the variables; the default graph if not given.

    Raises:
        ValueError: the graph has an op called "cpu" that other ops cannot be colocated with.
    """
    graph = tf.compat.v1.get_default_graph() if graph is None else graph
    anchor = _anchor(graph)
    for op in _initial_value_ops(graph):
        _move(op, anchor)


def _anchor(graph: tf.Graph) -> tf.Operation:
    """Returns the op on the CPU that the moved ops are colocated with, made at the first call."""
    try:
        existing = graph.get_operation_by_name(_ANCHOR)
    except KeyError:
        root = tf.name_scope("")
        with graph.as_default(), graph.control_dependencies(None), graph.device(_CPU), root:
            return tf.no_op(name=_ANCHOR)
    if existing.type != "NoOp" or not existing.device.upper().endswith("CPU:0"):
        raise ValueError(
            f"Expected no other op named {_ANCHOR!r} in the graph, since the ops that initialise "
            f"variables are colocated with one of that name. Received: {existing.type} on "
            f"{existing.device!r}. Rename it."
        )
    return existing


def _initial_value_ops(graph: tf.Graph) -> set[tf.Operation]:
    """Returns the ops that initial values are computed from, except those that use a resource."""
    pending = [
        variable.initializer.inputs[1].op
        for variable in graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        if not isinstance(variable, distributed_values.DistributedVariable)
    ]
    found: set[Any] = set()
    while pending:
        op = pending.pop()
        if op not in found and not any(t.dtype == tf.resource for t in op.inputs):
            found.add(op)
            pending += [tensor.op for tensor in op.inputs]
    return found


def _move(op: tf.Operation, anchor: tf.Operation) -> None:
    """Places an op on the CPU and takes it out of compilation."""
    op._set_device(_CPU)
    group = b"loc:@" + anchor.name.encode()
    op._set_attr(
        _COLOCATION, attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(s=[group]))
    )
    attributes = op.node_def.attr
    for name in _COMPILE_ATTRIBUTES:
        if name in attributes:
            op._clear_attr(name)
