"""Tests of `ShardedOptimizer` and its base class: values against plain TensorFlow; placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import optimizers
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.optimizers import ipu_optimizer, sharded_optimizer

tf1 = tf.compat.v1
STEPS = 3
RANDOM = np.random.default_rng(1)
X = RANDOM.standard_normal((8, 6)).astype(np.float32)
Y = RANDOM.integers(0, 3, 8).astype(np.int32)
W1 = RANDOM.standard_normal((6, 5)).astype(np.float32)
W2 = RANDOM.standard_normal((5, 3)).astype(np.float32)

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf1.train.AdamOptimizer(0.05),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.01),
}


def _loss(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A model on two IPUs; the attributes mean nothing to plain TensorFlow."""
    with scopes.ipu_shard(0):
        w1 = tf1.get_variable("w1", initializer=W1)
        hidden = tf.tanh(x @ w1)
    with scopes.ipu_shard(1):
        w2 = tf1.get_variable("w2", initializer=W2)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, hidden @ w2)
        return tf.reduce_mean(losses)


def _plain(optimizer: str) -> list[np.ndarray]:
    with tf.Graph().as_default(), tf1.Session() as session:
        with tf1.variable_scope("", use_resource=True):
            train = OPTIMIZERS[optimizer]().minimize(_loss(tf.constant(X), tf.constant(Y)))
        session.run(tf1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train)
        return session.run(tf1.trainable_variables())


def _sharded(optimizer: str, ipus: int, looped: bool) -> tuple[list[np.ndarray], Executable]:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()

    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        return sharded_optimizer.ShardedOptimizer(OPTIMIZERS[optimizer]()).minimize(_loss(x, y))

    def body(x: tf.Tensor, y: tf.Tensor) -> Any:
        return x, y, step(x, y)

    def net(x: tf.Tensor, y: tf.Tensor) -> Any:
        return loops.repeat(STEPS, body, [x, y]) if looped else step(x, y)

    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            train = ipu_compiler.compile(net, [X, Y])
        session.run(tf1.global_variables_initializer())
        for _ in range(1 if looped else STEPS):
            session.run(train)
        weights = session.run(tf1.trainable_variables())
    (executable,) = cache.executables()
    return weights, executable


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_equal_those_of_plain_tensorflow(optimizer: str, looped: bool) -> None:
    weights, executable = _sharded(optimizer, 2, looped)
    for found, expected in zip(weights, _plain(optimizer)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert (executable.ipus_used, executable.replicas) == (2, 1)


@pytest.mark.parametrize(("ipus", "replicas"), [(2, 1), (4, 2), (8, 4)])
def test_replicas_follow_from_shards(ipus: int, replicas: int) -> None:
    weights, executable = _sharded("sgd", ipus, False)
    assert executable.replicas == replicas
    np.testing.assert_allclose(weights[0], _plain("sgd")[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_gradients_and_updates_are_with_their_variables(optimizer: str) -> None:
    _, executable = _sharded(optimizer, 2, True)
    updates = [record for record in executable.ops if record.type.startswith("ResourceApply")]
    assert {record.name.split("/")[-2]: record.ipus for record in updates} == {
        "update_w1": (0,),
        "update_w2": (1,),
    }
    assert {record.ipu for record in executable.ops if record.type == "TanhGrad"} == {0}
    cross_entropy = "SparseSoftmaxCrossEntropyWithLogits"
    assert {record.ipu for record in executable.ops if record.type == cross_entropy} == {1}


def test_copies_of_a_step_are_activations_and_gradients() -> None:
    _, executable = _sharded("sgd", 2, False)
    # The hidden layer goes forth and its gradient comes back; labels come from the host.
    assert [
        (copy.source, copy.destination, copy.bytes, copy.runs, copy.label)
        for copy in executable.copies
    ] == [(0, 1, 8 * 5 * 4, 1, "exact"), (1, 0, 8 * 5 * 4, 1, "exact")]


def test_gradients_do_not_travel_through_residual_connections() -> None:
    """TensorFlow colocates sums of gradients with the last op here, which is on another IPU."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()

    def net(x: tf.Tensor) -> Any:
        for layer in range(6):
            with scopes.ipu_shard(layer // 3):
                w = tf1.get_variable(f"w{layer}", initializer=np.eye(6, dtype=np.float32))
                x = tf.tanh(x @ w) + x
        with scopes.ipu_shard(1):
            loss = tf.reduce_mean(x)
        inner = tf1.train.GradientDescentOptimizer(0.1)
        return sharded_optimizer.ShardedOptimizer(inner).minimize(loss)

    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            train = ipu_compiler.compile(net, [X])
        session.run(tf1.global_variables_initializer())
        session.run(train)
    (executable,) = cache.executables()
    # Of the activation's two users each sends its gradient back.
    moved = [(copy.source, copy.destination, copy.bytes) for copy in executable.copies]
    assert moved == [(0, 1, X.nbytes), (1, 0, X.nbytes), (1, 0, X.nbytes)]


def test_updates_take_attributes_in_the_graph() -> None:
    with tf.Graph().as_default() as graph, tf1.variable_scope("", use_resource=True):
        optimizer = optimizers.ShardedOptimizer(tf1.train.MomentumOptimizer(0.1, 0.9))
        step = tf1.train.create_global_step()
        pairs = optimizer.compute_gradients(_loss(tf.constant(X), tf.constant(Y)))
        optimizer.apply_gradients(pairs, global_step=step)
        placed = {
            op.name: op.get_attr("_XlaSharding")
            for op in graph.get_operations()
            if op.type == "ResourceApplyKerasMomentum" or op.type == "ResourceApplyMomentum"
        }
        forward = [graph.get_operation_by_name(name) for name in ("Tanh", "Mean")]
    assert list(placed.values()) == [op.get_attr("_XlaSharding") for op in forward]
    assert [variable.name for _, variable in pairs] == ["w1:0", "w2:0"]


class TestIpuOptimizer:
    """The base class passes everything on."""

    @pytest.fixture(autouse=True)
    def in_graph(self) -> Any:
        with tf.Graph().as_default():
            yield

    def test_calls_reach_the_wrapped_optimizer(self) -> None:
        variable = tf1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
        inner = tf1.train.MomentumOptimizer(0.5, 0.9, name="Inner")
        outer = optimizers.IpuOptimizer(inner)
        pairs = outer.compute_gradients(tf.reduce_sum(variable * variable), [variable])
        step = tf1.train.create_global_step()
        train = outer.apply_gradients(pairs, global_step=step, name="train")
        assert train.name == "train"
        assert outer.get_name() == "Inner"
        assert outer.get_slot_names() == ["momentum"]
        assert outer.get_slot(variable, "momentum") is inner.get_slot(variable, "momentum")
        assert outer.variables() == inner.variables()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(train)
            np.testing.assert_allclose(session.run(variable), [0.0, 0.0])
            assert session.run(step) == 1

    def test_minimize_calls_the_overridden_methods(self) -> None:
        calls: list[str] = []

        class Mine(ipu_optimizer.IpuOptimizer):
            def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
                calls.append("compute")
                return super().compute_gradients(*args, **kwargs)

            def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
                calls.append("apply")
                return super().apply_gradients(*args, **kwargs)

        variable = tf1.get_variable("w", initializer=1.0, use_resource=True)
        Mine(tf1.train.GradientDescentOptimizer(0.5)).minimize(variable * variable)
        assert calls == ["compute", "apply"]

    @pytest.mark.parametrize("optimizer", [None, 0.1, tf1.train.GradientDescentOptimizer])
    @pytest.mark.parametrize("wrapper", [optimizers.IpuOptimizer, optimizers.ShardedOptimizer])
    def test_wraps_no_other_kind(self, wrapper: Any, optimizer: Any) -> None:
        with pytest.raises(TypeError, match="Expected opt to be a tf.compat.v1.train.Optimizer"):
            wrapper(optimizer)

    def test_a_step_without_gradients_is_refused(self) -> None:
        variable = tf1.get_variable("w", initializer=1.0, use_resource=True)
        wrapped = optimizers.ShardedOptimizer(tf1.train.GradientDescentOptimizer(0.5))
        with pytest.raises(ValueError, match="No gradients provided"):
            wrapped.apply_gradients([(None, variable)])


def test_the_class_is_public_under_all_names() -> None:
    from tensorflow.python import ipu

    assert ipu.sharded_optimizer.ShardedOptimizer is ipu.optimizers.ShardedOptimizer
    assert ipu.optimizers.sharded_optimizer is ipu.sharded_optimizer
    assert "ShardedOptimizer" in dir(ipu.optimizers)
    assert not hasattr(ipu.optimizers, "NoSuchOptimizer")
