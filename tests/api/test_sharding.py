"""Tests of `ipu.sharding`, of the shards of gradients, and of IPUs and replicas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.api import ipu_compiler, loops, scopes, sharding
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.hooks import gradient_hooks
from tensorflow_ipu.compiler.ir import function_nodes as compiler_sharding
from tensorflow_ipu.compiler.ir.program import Program

tf1 = tf.compat.v1
X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


def _configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(params=["graph", "function"])
def graph(request: pytest.FixtureRequest) -> Iterator[tf.Graph]:
    """The two kinds of graphs that programs are built in."""
    if request.param == "graph":
        with tf.Graph().as_default() as graph:
            yield graph
    else:
        from tensorflow.python.framework.func_graph import FuncGraph

        with FuncGraph("built").as_default() as graph:
            yield graph


def _shard(op: tf.Operation) -> list[int] | None:
    if not sharding.has_attr(op, "_XlaSharding"):
        return None
    parsed = xla_data_pb2.OpSharding.FromString(op.get_attr("_XlaSharding"))
    return list(parsed.tile_assignment_devices)


def _colocate(op: tf.Operation, *names: str) -> None:
    groups = attr_value_pb2.AttrValue()
    groups.list.s.extend(b"loc:@" + name.encode() for name in names)
    op._set_attr("_class", groups)


@pytest.mark.usefixtures("graph")
class TestDependencies:
    def test_ancestors_and_roots_are_found_once_each(self) -> None:
        a = tf1.placeholder(tf.float32, [])
        b = tf.exp(a)
        c = b + b
        other = tf.sin(a)
        assert sharding.dependencies([c.op]) == [c.op, b.op, a.op]
        assert other.op not in sharding.dependencies([c.op])

    def test_roots_may_be_several_tensors(self) -> None:
        a = tf.exp(tf1.placeholder(tf.float32, []))
        with tf.control_dependencies([a]):
            b = tf.constant(1.0)
        c = tf.constant(2.0)
        found = sharding.dependencies([b, c.op])
        assert set(found) == {a.op, a.op.inputs[0].op, b.op, c.op}

    def test_no_roots_have_no_dependencies(self) -> None:
        assert sharding.dependencies([]) == []

    def test_a_root_that_is_no_operation_is_refused(self) -> None:
        with pytest.raises(TypeError, match="Expected the roots to be operations"):
            sharding.dependencies([3])  # type: ignore[list-item]


@pytest.mark.usefixtures("graph")
class TestAttributes:
    def test_has_attr_tells_whether_there_is_one(self) -> None:
        op = tf.exp(tf1.placeholder(tf.float32, [])).op
        assert sharding.has_attr(op, "T") is True
        assert sharding.has_attr(op, "_XlaSharding") is False

    def test_shard_of_op_that_group_is_named_after(self) -> None:
        with scopes.ipu_shard(3):
            forward = tf.constant(1.0, name="forward").op
        op = tf.constant(2.0).op
        _colocate(op, "forward")
        assert sharding.get_shard_from_colocation(op) == 3
        assert sharding.get_shard_from_colocation(forward) is None

    def test_a_group_has_the_shard_of_any_member(self) -> None:
        first, second, third = (tf.constant(1.0, name=name).op for name in ("a", "b", "c"))
        with scopes.ipu_shard([2, 1]):
            placed = tf.constant(1.0).op
        _colocate(placed, "a")
        _colocate(second, "x", "a")
        _colocate(third, "x")
        assert sharding.get_shard_from_colocation(second) == 2
        assert sharding.get_shard_from_colocation(first) == 2
        assert sharding.get_shard_from_colocation(third) is None

    def test_get_sharding_returns_the_list_of_shards(self, graph: tf.Graph) -> None:
        assert sharding.get_sharding(tf.constant(1.0).op) is None
        for index, expected in ((1, [1]), ([0, 2], [0, 2]), (-1, [-1])):
            with scopes.ipu_shard(index):
                assert sharding.get_sharding(tf.constant(1.0).op) == expected

    def test_shards_are_propagated_to_colocated_ops(self, graph: tf.Graph) -> None:
        with scopes.ipu_shard(1):
            tf.constant(1.0, name="forward")
        with scopes.ipu_shard(0):
            kept = tf.constant(1.0).op
        colocated, free = tf.constant(1.0).op, tf.constant(1.0).op
        _colocate(colocated, "forward")
        _colocate(kept, "forward")
        sharding.propagate_sharding(graph)
        assert [_shard(op) for op in (colocated, kept, free)] == [[1], [0], None]

    def test_shards_are_propagated_to_gradients(self, graph: tf.Graph) -> None:
        x = tf1.placeholder(tf.float32, [])
        y = tf.tanh(tf.sin(x))
        before = len(graph.get_operations())
        tf1.gradients(y, x, colocate_gradients_with_ops=True)
        gradients = graph.get_operations()[before:]
        for shard, op in enumerate((y.op.inputs[0].op, y.op)):
            op._set_attr("_XlaSharding", compiler_sharding.sharding_attribute([shard]))
        sharding.propagate_sharding(graph)
        found = {op.type: _shard(op) for op in gradients}
        assert found["TanhGrad"] == [1]
        assert found["Cos"] == [0]


def _stage(index: int, ipu: int) -> Any:
    """The scope around a stage of a pipeline."""
    return tf1.get_default_graph()._attr_scope(
        {
            "_ipu_stage": attr_value_pb2.AttrValue(i=index),
            "_XlaSharding": compiler_sharding.sharding_attribute([ipu]),
        }
    )


def _gradient(kind: str, function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    if kind == "gradients":
        return tf.gradients(function(x), x)[0]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("kind", ["gradients", "tape"])
class TestGradients:
    """Gradient ops follow their forward op, checked in the compiled program."""

    @pytest.fixture(autouse=True)
    def in_graph(self) -> Iterator[None]:
        _configure(4)
        gradient_hooks.follow_shards()
        with tf.Graph().as_default():
            yield

    def _records(self, net: Callable[..., Any]) -> dict[str, list[tuple[Any, ...]]]:
        with scopes.ipu_scope("/device:IPU:0"):
            fetches = ipu_compiler.compile(net, [X])
        with tf1.Session() as session:
            session.run(fetches)
        (executable,) = cache.executables()
        found: dict[str, list[tuple[Any, ...]]] = {}
        for record in executable.ops:
            found.setdefault(record.type, []).append((record.ipu, record.stage, record.phase))
        self.text = str(executable)
        return found

    def test_gradients_have_the_stage_of_their_forward_op(self, kind: str) -> None:
        def function(x: tf.Tensor) -> tf.Tensor:
            with _stage(0, 2):
                y = tf.tanh(x)
            with _stage(1, 3):
                return tf.sigmoid(y)

        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(0):
                return _gradient(kind, function, x)

        found = self._records(net)
        assert found["Tanh"] == [(2, 0, "")]
        assert found["TanhGrad"] == [(2, 0, "backward")]
        assert found["Sigmoid"] == [(3, 1, "")]
        assert found["SigmoidGrad"] == [(3, 1, "backward")]
        heading, *lines = self.text[self.text.index("IPU  op") :].splitlines()
        assert heading.split()[-2:] == ["stage", "source"]
        assert any("TanhGrad" in line and "0 backward" in line for line in lines)

    def test_no_stage_no_phase(self, kind: str) -> None:
        def function(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(1):
                return tf.tanh(x)

        found = self._records(lambda x: _gradient(kind, function, x))
        assert found["TanhGrad"] == [(1, None, "")]

    def test_sums_of_gradients_have_stage_of_tensor(self, kind: str) -> None:
        def function(x: tf.Tensor) -> tf.Tensor:
            with _stage(0, 1):
                y = tf.tanh(x)
                a, b, c = tf.sin(y), tf.cos(y), tf.sigmoid(y)
            with _stage(1, 2):
                return a * b * c

        found = self._records(lambda x: _gradient(kind, function, x))
        assert found["AddN"] == [(1, 0, "backward")]

    def test_function_gradients_have_stage_of_forward_op(self, kind: str) -> None:
        @tf.custom_gradient
        def custom(x: tf.Tensor) -> Any:
            return tf.exp(x), tf.sin

        @tf.function
        def called(x: tf.Tensor) -> tf.Tensor:
            return tf.tanh(x)

        def function(x: tf.Tensor) -> tf.Tensor:
            with _stage(0, 1):
                y = custom(x)
            with _stage(1, 2):
                return called(y)

        found = self._records(lambda x: _gradient(kind, function, x))
        assert found["Sin"] == [(1, 0, "backward")]
        assert found["TanhGrad"] == [(2, 1, "backward")]

    def test_loop_gradients_have_stage_of_forward_op(self, kind: str) -> None:
        def function(x: tf.Tensor) -> tf.Tensor:
            def body(i: tf.Tensor, y: tf.Tensor) -> Any:
                with _stage(0, 1):
                    y = tf.tanh(y)
                with _stage(1, 2):
                    return i + 1, tf.sigmoid(y)

            return tf.while_loop(lambda i, y: i < 3, body, (0, x), maximum_iterations=3)[1]

        found = self._records(lambda x: _gradient(kind, function, x))
        assert set(found["TanhGrad"]) == {(1, 0, "backward")}
        assert set(found["SigmoidGrad"]) == {(2, 1, "backward")}

    def test_conditional_gradients_have_stage_of_forward_op(self, kind: str) -> None:
        def function(x: tf.Tensor) -> tf.Tensor:
            def branch() -> tf.Tensor:
                with _stage(0, 1):
                    return tf.tanh(x)

            return tf.cond(tf.reduce_sum(x) > 0, branch, lambda: tf.sigmoid(x))

        found = self._records(lambda x: _gradient(kind, function, x))
        assert set(found["TanhGrad"]) == {(1, 0, "backward")}

    def test_gradients_of_loop_in_stage_are_in_stage(self, kind: str) -> None:
        def function(x: tf.Tensor) -> tf.Tensor:
            with _stage(2, 1):
                return loops.repeat(3, tf.tanh, [x])

        found = self._records(lambda x: _gradient(kind, function, x))
        assert set(found["Tanh"]) == {(1, 2, "")}
        assert set(found["TanhGrad"]) == {(1, 2, "backward")}
        loop_types = [name for name in found if name.endswith("While")]
        assert {place for name in loop_types for place in found[name]} == {
            (1, 2, ""),
            (1, 2, "backward"),
        }

    def test_the_scope_around_the_gradients_comes_back(self, kind: str) -> None:
        def net(x: tf.Tensor) -> Any:
            with scopes.ipu_shard(3):
                with _stage(5, 3):
                    gradient = _gradient(kind, tf.tanh, x)
                    after = tf.sin(x)
            return gradient, after

        found = self._records(net)
        assert found["Sin"] == [(3, 5, "")]
        assert found["TanhGrad"] == [(3, 5, "backward")]


class TestIpusAndReplicas:
    """IPUs of a program, its replicas, and too many shards."""

    def _program(self, devices: Any) -> Program:
        program = Program({}, "main")
        from tensorflow.core.framework import function_pb2

        function = function_pb2.FunctionDef()
        node = function.node_def.add(name="counter", op="IpuProgramVariable")
        node.attr["_ipu_pipeline"].s = json.dumps({"devices": devices}).encode()
        program.functions["main"] = function
        return program

    @pytest.mark.parametrize(
        ("devices", "expected"), [([0, 1, 2], 3), ([0, 0], 1), ([0, [1, 5], 2], 6), ([], 1)]
    )
    def test_devices_of_a_pipeline_count_as_used(self, devices: Any, expected: int) -> None:
        assert compiler_sharding.ipus_used(self._program(devices)) == expected

    @staticmethod
    def _in_a_loop(x: tf.Tensor, ipu: int) -> tf.Tensor:
        def body(y: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(ipu):
                return tf.sin(y)

        return loops.repeat(2, body, [x])

    @staticmethod
    def _in_a_branch(x: tf.Tensor, ipu: int) -> tf.Tensor:
        def branch() -> tf.Tensor:
            with scopes.ipu_shard(ipu):
                return tf.sin(x)

        return tf.cond(tf.reduce_sum(x) > 0, branch, lambda: x)

    @staticmethod
    def _in_a_function(x: tf.Tensor, ipu: int) -> tf.Tensor:
        @tf.function
        def inner(y: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(ipu):
                return tf.sin(y)

        return inner(x)

    @staticmethod
    def _list(x: tf.Tensor, ipu: int) -> tf.Tensor:
        with scopes.ipu_shard([0, ipu]):
            return tf.sin(x)

    @pytest.mark.parametrize("way", ["_in_a_loop", "_in_a_branch", "_in_a_function", "_list"])
    @pytest.mark.parametrize(
        ("ipus", "highest", "replicas"),
        [(1, 1, None), (2, 1, 1), (4, 1, 2), (4, 2, 1), (2, 2, None), (4, 4, None)],
    )
    def test_replicas_follow_from_the_shards_in_use(
        self, way: str, ipus: int, highest: int, replicas: int | None
    ) -> None:
        _configure(ipus)
        with tf.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
            fetches = ipu_compiler.compile(lambda x: getattr(self, way)(x, highest), [X])
            with tf1.Session() as session:
                if replicas is None:
                    phrase = "The number of shards needs to divide the number of IPUs"
                    with pytest.raises(tf.errors.InternalError, match=phrase):
                        session.run(fetches)
                    return
                session.run(fetches)
        (executable,) = cache.executables()
        assert (executable.ipus_used, executable.replicas) == (highest + 1, replicas)


# What makes tapes follow shards is installed once in a process.
_TAPES_ALONE = """
import tensorflow as tf
from tensorflow.python.ipu import scopes, sharding

sharding.enable_sharded_gradient_tape()


@tf.function
def gradients(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            with scopes.ipu_shard(1):
                y = tf.sin(x)
            with scopes.ipu_shard(2):
                y = tf.tanh(y)
            y = tf.exp(y)
        with scopes.ipu_shard(3):
            gradient = inner.gradient(y, x)
    return outer.gradient(gradient, x)


graph = gradients.get_concrete_function(tf.TensorSpec([2])).graph
shards = {op.type: sharding.get_sharding(op) for op in graph.get_operations() if "tape/" in op.name}
print(shards["Cos"], shards["TanhGrad"], shards["Neg"])
print(sharding.get_sharding(graph.get_operation_by_name("gradient_tape/mul")))
"""


def test_tapes_follow_shards_without_other_ipu_ops(run_program: Any) -> None:
    lines = run_program(_TAPES_ALONE).stdout.splitlines()
    assert lines[-2:] == ["[1] [2] [1]", "None"]
