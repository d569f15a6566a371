"""Tests of automatic sharding: which op goes where, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from tensorflow.compiler.xla import xla_data_pb2

from tensorflow_ipu.api import autoshard, ipu_compiler, loops, sharding
from tensorflow_ipu.api import scopes as ipu_scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.optimizers.sharded_optimizer import ShardedOptimizer

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
STEPS = 3
WIDTH = 16
Model = Callable[[tf.Tensor], tf.Tensor]


def _weights(name: str, *shape: int) -> tf.Variable:
    values = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32) / 4
    return tf1.get_variable(name, initializer=values, use_resource=True)


def _mlp(x: tf.Tensor) -> tf.Tensor:
    for layer in range(8):
        x = tf.tanh(x @ _weights("w" * (layer + 1), WIDTH, WIDTH))
    return tf.reduce_mean(tf.square(x))


def _cnn(x: tf.Tensor) -> tf.Tensor:
    x = tf.reshape(x, [4, 8, 8, 1])
    channels = 1
    for layer in range(4):
        kernel = _weights(f"k{'k' * layer}", 3, 3, channels, 8)
        y = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") + _weights(f"b{'b' * layer}", 8))
        x = y + x if channels == 8 else y
        channels = 8
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    return tf.reduce_mean(tf.reshape(x, [4, -1]) @ _weights("out", 128, 10))


MODELS: dict[str, tuple[Model, np.ndarray]] = {
    "mlp": (_mlp, RANDOM.standard_normal((WIDTH, WIDTH)).astype(np.float32)),
    "cnn": (_cnn, RANDOM.standard_normal((4, 64)).astype(np.float32)),
}


def _shard(op: tf.Operation) -> int | None:
    if not sharding.has_attr(op, "_XlaSharding"):
        return None
    parsed = xla_data_pb2.OpSharding.FromString(op.get_attr("_XlaSharding"))
    (device,) = parsed.tile_assignment_devices
    return device


def _configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def _forward(loss: tf.Tensor, x: tf.Tensor) -> list[tf.Operation]:
    """The ops between input and loss in the order they were made."""
    needed = set(sharding.dependencies([loss]))
    reached: list[tf.Operation] = []
    for op in loss.graph.get_operations():
        sources = [tensor.op for tensor in op.inputs]
        if op in needed and (x.op in sources or any(source in reached for source in sources)):
            reached.append(op)
    return reached


@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize("model", MODELS)
def test_ops_are_spread_over_all_shards(model: str, shards: int) -> None:
    build, data = MODELS[model]
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, data.shape)
        loss = build(x)
        autoshard.automatic_sharding(shards, x, loss)
        ops = _forward(loss, x)
        found = [_shard(op) for op in ops]
        # All are assigned, in contiguous shards.
        assert None not in found
        assert found == sorted(found)  # type: ignore[type-var]
        assert set(found) == set(range(shards))
        # What they need goes with them.
        for op in sharding.dependencies([loss]):
            if op.type in ("ReadVariableOp", "Const"):
                users = [_shard(user) for tensor in op.outputs for user in tensor.consumers()]
                assert _shard(op) == min(users)  # type: ignore[type-var]
        # The memory is even: what the ops make, and the variables.
        loads = np.zeros(shards)
        for op in [op for op in sharding.dependencies([loss]) if _shard(op) is not None]:
            sizes = [t.shape.num_elements() * 4 for t in op.outputs if t.dtype == tf.float32]
            loads[_shard(op)] += sum(sizes)
        assert loads.max() <= 1.5 * loads.sum() / shards


def _plain(model: str) -> list[np.ndarray]:
    build, data = MODELS[model]
    with tf.Graph().as_default(), tf1.Session() as session:
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(build(tf.constant(data)))
        session.run(tf1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train)
        return session.run(tf1.trainable_variables())


@pytest.mark.parametrize("when", ["before the gradients", "after the gradients", "colocated"])
@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("model", MODELS)
def test_sharded_training_equals_unsharded_training(model: str, shards: int, when: str) -> None:
    build, data = MODELS[model]
    _configure(shards)
    optimizer: Any = tf1.train.GradientDescentOptimizer(0.1)
    if when == "colocated":
        optimizer = ShardedOptimizer(optimizer)

    def body(x: tf.Tensor) -> Any:
        loss = build(x)
        if when == "after the gradients":
            pairs = optimizer.compute_gradients(loss)
            autoshard.automatic_sharding(shards, x, loss)
        else:
            autoshard.automatic_sharding(shards, x, loss)
            pairs = optimizer.compute_gradients(loss)
        return x, optimizer.apply_gradients(pairs)

    with tf.Graph().as_default(), tf1.Session() as session:
        with ipu_scopes.ipu_scope("/device:IPU:0"):
            train = ipu_compiler.compile(lambda x: loops.repeat(STEPS, body, [x]), [data])
        session.run(tf1.global_variables_initializer())
        session.run(train)
        weights = session.run(tf1.trainable_variables())
    for found, expected in zip(weights, _plain(model)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    (executable,) = cache.executables()
    assert (executable.ipus_used, executable.replicas) == (shards, 1)
    if model == "mlp":
        forward = [record.ipu for record in executable.ops if record.type == "Tanh"]
        backward = [record.ipu for record in executable.ops if record.type == "TanhGrad"]
        assert forward == sorted(backward) == backward[::-1]
        # Between neighbours, one activation goes forth and one gradient comes back.
        moved = {(copy.source, copy.destination, copy.bytes) for copy in executable.copies}
        size = WIDTH * WIDTH * 4
        neighbours = {(ipu, ipu + 1, size) for ipu in range(shards - 1)}
        assert neighbours | {(b, a, size) for a, b, _ in neighbours} <= moved


def test_gradients_of_a_tape_are_sharded() -> None:
    _configure(2)
    strategy = ipu_strategy.IPUStrategy()
    values = [np.full([4, 4], value, np.float32) for value in (0.1, 0.2)]
    with strategy.scope():
        weights = [tf.Variable(value) for value in values]

    @tf.function(jit_compile=True)
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(tf.sigmoid(x @ weights[0]) @ weights[1]))
        autoshard.automatic_sharding(2, x, loss)
        return tape.gradient(loss, weights)

    x = tf.constant(RANDOM.standard_normal((4, 4)).astype(np.float32))
    copies = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(copies)
        loss = tf.reduce_sum(tf.tanh(tf.sigmoid(x @ copies[0]) @ copies[1]))
    expected = tape.gradient(loss, copies)
    with strategy.scope():
        found = strategy.run(step, [x])
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    (executable,) = cache.executables()
    places = {record.type: record.ipu for record in executable.ops}
    assert places["SigmoidGrad"] == places["Sigmoid"] == 0
    assert places["TanhGrad"] == places["Tanh"] == 1


@pytest.mark.usefixtures("in_graph")
class TestRules:
    @pytest.fixture
    def in_graph(self) -> Any:
        with tf.Graph().as_default():
            yield

    @pytest.fixture
    def warnings(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        found: list[str] = []
        monkeypatch.setattr(logging, "warning", lambda text, *args: found.append(text % args))
        return found

    def test_ops_of_one_variable_stay_together(self, warnings: list[str]) -> None:
        x = tf1.placeholder(tf.float32, [4, 4])
        w = _weights("w", 4, 4)
        first = tf.tanh(x @ w)
        second = tf.tanh(first @ w.read_value())
        last = tf.exp(second)
        autoshard.automatic_sharding(4, x, last)
        tied = [op for op in _forward(last, x) if op.type == "MatMul"]
        assert _shard(tied[0]) == _shard(tied[1]) == _shard(first.op)
        assert len(warnings) == 1
        assert "4 shards were asked for" in warnings[0]
        assert "3 only" in warnings[0]

    def test_colocated_ops_stay_together(self, warnings: list[str]) -> None:
        x = tf1.placeholder(tf.float32, [4])
        a = tf.exp(x)
        b = tf.sin(a)
        with tf1.colocate_with(a.op):
            c = tf.cos(b)
        d = tf.tan(c)
        autoshard.automatic_sharding(2, x, d)
        assert [_shard(t.op) for t in (a, b, c, d)] == [0, 0, 0, 1]
        assert not warnings

    def test_edges_that_must_not_be_cut(self, warnings: list[str]) -> None:
        x = tf1.placeholder(tf.float32, [4])
        tensors = [x]
        for index in range(4):
            tensors.append(tf.exp(tensors[-1], name=f"op{index}"))
        seen: list[tuple[str, str]] = []

        def keep(edge: tuple[str, str]) -> bool:
            seen.append(edge)
            return edge != ("op0", "op1")

        autoshard.automatic_sharding(3, x, tensors[-1], edge_filter=keep)
        assert [_shard(t.op) for t in tensors[1:]] == [0, 1, 1, 1]
        assert set(seen) == {("op0", "op1"), ("op1", "op2"), ("op2", "op3")}
        assert len(warnings) == 1

    def test_cuts_where_little_is_copied(self) -> None:
        x = tf1.placeholder(tf.float32, [64])
        wide = tf.exp(tf.sin(x))
        narrow = tf.reduce_sum(wide)
        widened = tf.cos(tf.tan(tf.broadcast_to(narrow, [64])))
        autoshard.automatic_sharding(2, x, widened)
        assert _shard(wide.op) == _shard(narrow.op) == 0
        assert _shard(widened.op.inputs[0].op.inputs[0].op) == 1

    def test_earlier_shards_are_replaced(self) -> None:
        x = tf1.placeholder(tf.float32, [4])
        with ipu_scopes.ipu_shard(5):
            y = tf.exp(tf.sin(x))
            other = tf.cos(x)
        autoshard.automatic_sharding(1, x, y)
        assert [_shard(op) for op in (y.op, y.op.inputs[0].op, other.op)] == [0, 0, 5]

    def test_unknown_dimensions_do_not_stop_sharding(self) -> None:
        x = tf1.placeholder(tf.float32, [None, 4])
        y = tf.exp(tf.sin(x))
        autoshard.automatic_sharding(2, x, y)
        assert [_shard(y.op.inputs[0].op), _shard(y.op)] == [0, 1]

    def test_frozen_inference_counts_constants(self) -> None:
        x = tf1.placeholder(tf.float32, [100, 2])
        large = tf.constant(RANDOM.standard_normal((2, 90)).astype(np.float32))
        small = [tf.constant(RANDOM.standard_normal(s).astype(np.float32)) for s in [(90, 1)] * 2]
        a = x @ large
        b = a @ small[0]
        c = tf.matmul(small[1], b, transpose_b=True)
        autoshard.automatic_sharding(2, x, c, frozen_inference=True)
        assert [_shard(t.op) for t in (a, b, c)] == [0, 1, 1]

    def test_structures_of_tensors_are_sharded(self) -> None:
        x, y = tf1.placeholder(tf.float32, [4]), tf1.placeholder(tf.float32, [4])
        z = tf.exp(x) + tf.sin(y)
        autoshard.automatic_sharding(2, {"x": x, "y": y}, [z, tf.cos(z)])
        assert None not in [_shard(op) for op in (z.op, *(t.op for t in z.op.inputs))]

    @pytest.mark.parametrize("shards", [0, -1, 1.5, None, True, "2"])
    def test_a_wrong_number_of_shards_is_refused(self, shards: Any) -> None:
        x = tf1.placeholder(tf.float32, [])
        with pytest.raises(ValueError, match="num_shards must be an int >= 1"):
            autoshard.automatic_sharding(shards, x, tf.exp(x))

    @pytest.mark.parametrize("bad", [None, 3.0, [], "x"])
    def test_wrong_tensors_are_refused(self, bad: Any) -> None:
        x = tf1.placeholder(tf.float32, [])
        with pytest.raises(TypeError, match="input_ts must be a tensor of a graph"):
            autoshard.automatic_sharding(2, bad, tf.exp(x))
        with pytest.raises(TypeError, match="loss_ts must be a tensor of a graph"):
            autoshard.automatic_sharding(2, x, bad)

    def test_a_filter_that_is_no_function_is_refused(self) -> None:
        x = tf1.placeholder(tf.float32, [])
        with pytest.raises(TypeError, match="edge_filter must be a function"):
            autoshard.automatic_sharding(2, x, tf.exp(x), edge_filter=3)  # type: ignore[arg-type]

    def test_loss_independent_of_input_is_refused(self) -> None:
        x = tf1.placeholder(tf.float32, [])
        tf.exp(x)
        with pytest.raises(ValueError, match="Expected a loss that depends on the input"):
            autoshard.automatic_sharding(2, x, tf.exp(tf1.placeholder(tf.float32, [])))

    def test_tensors_of_two_graphs_are_refused(self) -> None:
        x = tf1.placeholder(tf.float32, [])
        with tf.Graph().as_default():
            y = tf.exp(tf1.placeholder(tf.float32, []))
        with pytest.raises(ValueError, match="in one graph"):
            autoshard.automatic_sharding(2, x, y)


def test_more_shards_than_ipus_are_refused() -> None:
    _configure(2)

    def net(x: tf.Tensor) -> tf.Tensor:
        y = tf.exp(tf.sin(tf.cos(tf.tan(x))))
        autoshard.automatic_sharding(4, x, y)
        return y

    phrase = "The number of shards needs to divide the number of IPUs"
    with tf.Graph().as_default(), tf1.Session() as session:
        with ipu_scopes.ipu_scope("/device:IPU:0"):
            fetches = ipu_compiler.compile(net, [np.ones(3, np.float32)])
        with pytest.raises(tf.errors.InternalError, match=phrase):
            session.run(fetches)
