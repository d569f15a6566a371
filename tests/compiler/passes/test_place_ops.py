"""Tests of the pass that finds an IPU for ops that name none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir import function_nodes
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.passes import place_ops
from tests.support.programs.compiled_programs import program_of, scalar_target, unindented

# --- Tests of the pass that frees ops from devices ---


def test_devices_and_colocation_go():
    def body(x):
        with tf.device("/device:IPU:0"):
            y = x + 1.0
        with tf.compat.v1.colocate_with(y):
            return y * 2.0

    program = program_of(body, tf.TensorSpec([], tf.float32))
    assert "add = AddV2(x, add/y:output:0) {device=/device:IPU:0}" in str(program)
    assert "{device=/device:IPU:0, _class=[loc:@add]}" in str(program)
    place_ops.clear_devices(program, scalar_target())
    assert str(program) == unindented("""
        function 0(x: float32[])
          add/y = Const() {dtype=float32, value=1.0}
          add = AddV2(x, add/y:output:0)
          mul/y = Const() {dtype=float32, value=2.0}
          mul = Mul(add:z:0, mul/y:output:0)
          Identity = Identity(mul:z:0)
          return Identity:output:0
        """)


# --- Tests of the pass that finds an IPU for ops that name none ---

tf1 = tf.compat.v1
X = np.arange(1, 5, dtype=np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    with tf.Graph().as_default() as graph:
        yield graph


def _run(net: Callable[..., Any], inputs: Any = (X,)) -> tuple[list[Any], Executable]:
    with scopes.ipu_scope("/device:IPU:0"):
        fetches = ipu_compiler.compile(net, list(inputs))
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        results = session.run(fetches)
    (executable,) = cache.executables()
    return results, executable


def _ipus(executable: Executable, op_type: str) -> list[tuple[int, ...]]:
    return [record.ipus for record in executable.ops if record.type == op_type]


def _on(ipu: int, function: Callable[..., Any], *args: Any) -> Any:
    with scopes.ipu_shard(ipu):
        return function(*args)


def test_takes_the_ipu_of_what_it_is_given() -> None:
    def net(x: tf.Tensor) -> tf.Tensor:
        y = _on(2, tf.exp, x)
        return tf.sin(tf.cos(y))

    _, executable = _run(net)
    assert _ipus(executable, "Sin") == _ipus(executable, "Cos") == [(2,)]
    assert executable.copies == ()


def test_otherwise_an_op_is_beside_its_users() -> None:
    def net(x: tf.Tensor) -> tf.Tensor:
        y = tf.sin(tf.cos(x))
        return _on(3, lambda: tf.exp(y))

    _, executable = _run(net)
    assert _ipus(executable, "Cos") == [(3,)]


def test_the_variable_comes_first() -> None:
    def net(x: tf.Tensor) -> Any:
        w = tf1.get_variable("w", initializer=X)
        y = _on(1, lambda: w.read_value() * x)
        penalty = _on(0, lambda: tf.exp(x))
        update = w.assign_sub(penalty, read_value=False)
        return y, update

    _, executable = _run(net)
    assert _ipus(executable, "AssignSubVariableOp") == [(1,)]


def test_the_variable_is_known_in_branches_and_loops() -> None:
    def net(x: tf.Tensor) -> Any:
        w = tf1.get_variable("w", initializer=X)

        def body(total: tf.Tensor) -> Any:
            y = _on(1, lambda: w.read_value() * x)
            with tf.control_dependencies([y]):
                update = tf.cond(
                    tf.reduce_sum(total) > 0.0,
                    lambda: tf.group(w.assign_add(X, read_value=False)),
                    lambda: tf.no_op(),
                )
            return _on(0, lambda: total + y), tf.group(update)

        return loops.repeat(2, body, [tf.ones([4])])

    results, executable = _run(net)
    np.testing.assert_array_equal(results[0], 1 + X * X + 2 * X * X)
    assert _ipus(executable, "AssignAddVariableOp") == [(1,)]


def test_op_that_nothing_places_is_on_ipu_0() -> None:
    def net(x: tf.Tensor, y: tf.Tensor) -> Any:
        return _on(1, tf.exp, x), tf.sin(y)

    _, executable = _run(net, (X, X))
    assert _ipus(executable, "Sin") == [(0,)]


def test_the_program_does_not_change_without_shards() -> None:
    _, executable = _run(lambda x: tf.exp(x))
    nodes = [node for function in executable.library.function for node in function.node_def]
    assert not any("_XlaSharding" in node.attr for node in nodes)


def test_a_feed_stays_in_one_place() -> None:
    function = function_pb2.FunctionDef()
    function.signature.name = "main"
    for name, op, inputs in (
        ("first", "IpuInfeedDequeue", []),
        ("second", "IpuInfeedDequeue", []),
        ("a", "Neg", ["first:outputs:0"]),
        ("b", "Neg", ["second:outputs:0"]),
    ):
        function.node_def.add(name=name, op=op, input=inputs)
    nodes = {node.name: node for node in function.node_def}
    for name in ("first", "second"):
        nodes[name].attr["feed_id"].s = b"feed"
    nodes["a"].attr["_XlaSharding"].CopyFrom(function_nodes.sharding_attribute([2]))
    nodes["b"].attr["_XlaSharding"].CopyFrom(function_nodes.sharding_attribute([1]))
    place_ops.place(Program({"main": function}, "main"), scalar_target(0))
    assert [function_nodes.node_ipus(nodes[name]) for name in ("first", "second")] == [(2,), (2,)]


def test_ops_on_the_host_stay_there() -> None:
    def net(x: tf.Tensor) -> tf.Tensor:
        y = _on(3, tf.exp, x)
        with scopes.outside_compilation_scope():
            z = tf1.py_func(lambda value: value + 1, [y], tf.float32)
            z.set_shape([4])
        return tf.sin(z) + _on(3, tf.cos, y)

    results, executable = _run(net)
    np.testing.assert_allclose(results[0], np.sin(np.exp(X) + 1) + np.cos(np.exp(X)), rtol=1e-5)
    assert _ipus(executable, "PyFunc") == [()]
    assert _ipus(executable, "AddV2") == [(3,)]


def test_op_that_runs_placed_ops_gives_no_place() -> None:
    def net(x: tf.Tensor) -> Any:
        looped = loops.repeat(2, lambda y: _on(2, tf.tanh, y), [x])
        return tf.sin(looped)

    _, executable = _run(net)
    assert _ipus(executable, "Tanh") == [(2,)]
    assert _ipus(executable, "Sin") == [(0,)]
