"""Moving initial values to the CPU, judged by the attributes of the graph's ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.training.variable_initialization import move_variable_initialization_to_cpu


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def _ipu_attributes(graph: tf.Graph) -> None:
    """Adds the attributes of IPU scopes to all ops."""
    for op in graph.get_operations():
        op._set_device("/device:IPU:0")
        op._set_attr("_XlaCompile", attr_value_pb2.AttrValue(b=True))
        op._set_attr("_XlaScope", attr_value_pb2.AttrValue(s=b"jit_scope_ipu_0"))
        op._set_attr("_XlaSeparateCompiledGradients", attr_value_pb2.AttrValue(b=False))


def _is_moved(op: tf.Operation) -> bool:
    attributes = op.node_def.attr
    moved = op.device == "/device:CPU:0"
    assert moved == (list(attributes["_class"].list.s) == [b"loc:@cpu"])
    assert moved == ("_XlaCompile" not in attributes)
    assert moved == ("_XlaScope" not in attributes)
    assert moved == ("_XlaSeparateCompiledGradients" not in attributes)
    return moved


def _variable(**arguments: bool) -> tf.Variable:
    return tf.compat.v1.get_variable(
        "v", [2, 3], initializer=tf.compat.v1.random_uniform_initializer(2, 3), **arguments
    )


def test_only_ops_of_initial_value_move(graph: tf.Graph) -> None:
    variable = _variable(use_resource=True)
    other = variable + 1.0
    _ipu_attributes(graph)
    move_variable_initialization_to_cpu()
    moved = {op.name for op in graph.get_operations() if op.name != "cpu" and _is_moved(op)}
    assert moved == {
        op.name
        for op in graph.get_operations()
        if op.name.startswith("v/Initializer/random_uniform")
    }
    assert moved
    assert not _is_moved(other.op)
    assert not _is_moved(variable.handle.op) and not _is_moved(variable.initializer)


def test_an_op_named_cpu_is_added_once(graph: tf.Graph) -> None:
    _variable(use_resource=True)
    before = tf.control_dependencies([tf.no_op()])
    with tf.device("/device:IPU:0"), tf.name_scope("scope"), before:
        move_variable_initialization_to_cpu(graph)
    move_variable_initialization_to_cpu(graph)
    anchor = graph.get_operation_by_name("cpu")
    assert (anchor.type, anchor.device) == ("NoOp", "/device:CPU:0")
    assert not anchor.control_inputs
    assert not [op for op in graph.get_operations() if op.name == "cpu_1"]


def test_another_op_of_that_name_is_an_error(graph: tf.Graph) -> None:
    tf.constant(1.0, name="cpu")
    with pytest.raises(ValueError, match="Rename it"):
        move_variable_initialization_to_cpu()


def test_ops_that_use_a_resource_are_left(graph: tf.Graph) -> None:
    first = _variable(use_resource=True)
    second = tf.compat.v1.get_variable("w", initializer=first.read_value() * 2.0, use_resource=True)
    _ipu_attributes(graph)
    move_variable_initialization_to_cpu()
    uses = [op for op in graph.get_operations() if any(t.dtype == tf.resource for t in op.inputs)]
    assert uses and not any(_is_moved(op) for op in uses)
    assert _is_moved(second.initializer.inputs[1].op)


def test_only_the_given_graph_changes() -> None:
    with tf.Graph().as_default() as other:
        _variable(use_resource=True)
    with tf.Graph().as_default() as default:
        move_variable_initialization_to_cpu(other)
        assert not default.get_operations()
    assert other.get_operation_by_name("v/Initializer/random_uniform").device == "/device:CPU:0"


@pytest.mark.parametrize("use_resource", [True, False])
def test_the_graph_still_runs(graph: tf.Graph, use_resource: bool) -> None:
    variable = _variable(use_resource=use_resource)
    move_variable_initialization_to_cpu()
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        value = session.run(variable)
    assert np.all((value >= 2) & (value < 3))
