"""Ops that a graph places on an IPU without compiling them: they run as programs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.compiler.cache import CACHE
from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.ops import summary_ops
from tensorflow_ipu.runtime import native

tf1 = tf.compat.v1
IPU = "/device:IPU:0"
X = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(4, 4)


def _configure(ipus: int | list[int] = 1, **floating_point: bool) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    for name, value in floating_point.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()


def _programs() -> list[str]:
    """Returns the names of the programs that were compiled."""
    return [executable.name for executable in CACHE.all()]


@pytest.fixture
def session() -> Any:
    """Yields a session of a graph with one IPU, in the scope of both."""
    _configure()
    with tf.Graph().as_default(), tf1.Session() as opened:
        yield opened


def test_sums_of_float16_are_added_in_float32(session: tf1.Session) -> None:
    with ipu.scopes.ipu_scope(IPU):
        x = tf1.placeholder(tf.float16, [10000])
        mean, product = tf.reduce_mean(x), x[:2] * 3
    values = np.full(10000, 32752, np.float16)
    assert session.run(mean, {x: values}) == 32752
    # Overflow saturates, as in compiled programs.
    np.testing.assert_array_equal(session.run(product, {x: values}), [65504, 65504])


def test_constants_are_rounded_stochastically_per_run_and_device() -> None:
    _configure([1, 1], esr=True)
    with tf.Graph().as_default(), tf1.Session() as session:
        halves = []
        for device in range(2):
            with ipu.scopes.ipu_scope(f"/device:IPU:{device}"):
                halves.append(tf.cast(tf.fill([1000], 0.1), tf.float16))
        ipu.utils.reset_ipu_seed(7)
        first, second = session.run(halves[0]), session.run(halves[0])
        other = session.run(halves[1])
        ipu.utils.reset_ipu_seed(7)
        again = session.run(halves[0])
    assert len(np.unique(first)) == 2
    assert (first != second).any()
    assert (first != other).any()
    np.testing.assert_array_equal(again, first)


def test_neighbors_are_one_program_with_host_ops(session: tf1.Session) -> None:
    with ipu.scopes.ipu_scope(IPU):
        x = tf1.placeholder(tf.float32, [4, 4])
        y = tf.nn.softmax(tf.matmul(x, x) + 1.0)
    with tf.device("/cpu:0"):
        on_host = tf.cast(tf.cast(y, tf.float64) * 2, tf.float32)
    with ipu.scopes.ipu_scope(IPU):
        z = on_host - y
    exponentials = np.exp(X @ X + 1.0)
    expected = exponentials / exponentials.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(session.run(z, {x: X}), expected, rtol=1e-5)
    assert len(_programs()) == 2


def test_intermediate_tensors_can_be_fetched_and_fed(session: tf1.Session) -> None:
    with ipu.scopes.ipu_scope(IPU):
        x = tf1.placeholder(tf.float32, [4, 4])
        y = x * 3
        z = tf.tanh(y)
    got_y, got_z = session.run([y, z], {x: X})
    np.testing.assert_allclose(got_y, X * 3)
    np.testing.assert_allclose(got_z, np.tanh(X * 3), rtol=1e-5)
    np.testing.assert_allclose(session.run(z, {y: X}), np.tanh(X), rtol=1e-5)


def _regression(optimizer: tf1.train.Optimizer) -> tuple[tf.Tensor, tf.Tensor, tf.Operation]:
    """Returns the inputs, the loss and the update of a small model."""
    x = tf1.placeholder(tf.float32, [4, 4])
    with tf1.variable_scope("model", use_resource=True):
        w = tf1.get_variable("w", initializer=tf.constant(X))
        b = tf1.get_variable("b", shape=[4], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(x, w) + b) - 1.0))
    return x, loss, optimizer.minimize(loss)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf1.train.GradientDescentOptimizer(0.1),
        lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf1.train.AdamOptimizer(0.1),
    ],
)
def test_training_gives_the_losses_of_the_host(
    optimizer: Callable[[], tf1.train.Optimizer],
) -> None:
    _configure()
    losses = []
    for device in ("/cpu:0", IPU):
        with tf.Graph().as_default(), tf1.Session() as session:
            with tf.device(device):
                x, loss, train = _regression(optimizer())
            session.run(tf1.global_variables_initializer())
            losses.append([session.run([loss, train], {x: X + i})[0] for i in range(4)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def _residual_losses(replicas: int) -> tuple[list[float], list[np.ndarray]]:
    """Trains residual convolutions with ops that are not compiled by the program."""
    _configure(replicas)
    images = np.random.default_rng(0).standard_normal((4, 8, 8, 3)).astype(np.float32)
    draw = tf1.random_normal_initializer(0, 0.2, seed=1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with ipu.scopes.ipu_scope(IPU):
            x = tf1.placeholder(tf.float32, images.shape)
            bias = tf1.get_variable("bias", [3], initializer=tf1.zeros_initializer())
            y = x
            for index in range(4):
                kernel = tf1.get_variable(f"kernel_{index}", [3, 3, 3, 3], initializer=draw)
                y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, kernel, 1, "SAME"), bias) + y)
            loss = tf.reduce_mean(tf.square(y - 1))
            train = tf1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        session.run(tf1.global_variables_initializer())
        losses = [session.run([loss, train], {x: images + i})[0] for i in range(8)]
        return losses, session.run(tf1.trainable_variables())


def test_replicas_train_residual_convolutions_as_one() -> None:
    losses, weights = _residual_losses(1)
    for replicas in (2, 4):
        found_losses, found_weights = _residual_losses(replicas)
        np.testing.assert_allclose(found_losses, losses, rtol=1e-5)
        for found, expected in zip(found_weights, weights):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_reads_and_writes_of_variable_keep_their_order(session: tf1.Session) -> None:
    with ipu.scopes.ipu_scope(IPU):
        v = tf1.get_variable("v", initializer=1.0)
        before = v.read_value() + 0.0
        with tf.control_dependencies([before]):
            add = v.assign_add(2.0)
        with tf.control_dependencies([add]):
            between = v.read_value() * 10.0
        with tf.control_dependencies([between]):
            store = v.assign(between + 1.0)
        with tf.control_dependencies([store]):
            after = v.read_value() + 0.0
    session.run(v.initializer)
    assert session.run([before, between, after]) == [1.0, 30.0, 31.0]
    assert session.run(v) == 31.0


def test_only_what_is_fetched_runs(session: tf1.Session) -> None:
    with ipu.scopes.ipu_scope(IPU):
        v = tf1.get_variable("v", initializer=1.0)
        doubled = v * 2.0
        add = v.assign_add(1.0)
    session.run(v.initializer)
    assert session.run(doubled) == 2.0
    assert session.run(v) == 1.0
    session.run(add)
    assert session.run(v) == 2.0


def test_initial_variables_follow_tensorflow_seeds(session: tf1.Session) -> None:
    draw = tf1.truncated_normal_initializer(seed=3)
    with tf1.variable_scope("on_ipu"), ipu.scopes.ipu_scope(IPU):
        ours = tf1.get_variable("w", [5], initializer=draw)
        half = tf1.get_variable("h", [5], tf.float16, initializer=draw)
    with tf1.variable_scope("on_host", use_resource=True):
        theirs = tf1.get_variable("w", [5], initializer=draw)
    session.run(tf1.global_variables_initializer())
    assert not _programs()
    ours, half, theirs = session.run([ours, half, theirs])
    np.testing.assert_array_equal(ours, theirs)
    assert half.dtype == np.float16


@pytest.mark.parametrize("loops", ["functional", "of TensorFlow 1"])
def test_loops_and_conditionals_are_part_of_the_program(session: tf1.Session, loops: str) -> None:
    if loops == "of TensorFlow 1":
        tf1.disable_control_flow_v2()
    try:
        with ipu.scopes.ipu_scope(IPU):
            x = tf1.placeholder(tf.float32, [4, 4])
            _, y = tf.while_loop(
                lambda i, _: i < 3,
                lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x))),
                [tf.constant(0), x],
            )
            y = tf.cond(tf.reduce_sum(y) > 1e6, lambda: y, lambda: -y)
            (gradient,) = tf.gradients(y, x)
    finally:
        tf1.enable_control_flow_v2()
    got, got_gradient = session.run([y, gradient], {x: X})
    with tf.device("/cpu:0"), tf.Graph().as_default(), tf1.Session() as plain:
        x = tf1.placeholder(tf.float32, [4, 4])
        y = x
        for _ in range(3):
            y = tf.tanh(tf.matmul(y, x))
        want = plain.run([-y, tf.gradients(-y, x)[0]], {x: X})
    np.testing.assert_allclose(got, want[0], rtol=1e-5)
    np.testing.assert_allclose(got_gradient, want[1], rtol=1e-4, atol=1e-6)
    assert len(_programs()) == 1


def test_ops_in_tensorflow_1_loops_run_on_host(session: tf1.Session) -> None:
    tf1.disable_control_flow_v2()
    try:

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.device(IPU):
                return i + 1, y * 2.0

        with tf.device(IPU):
            x = tf.constant(X) + 1.0
        _, y = tf.while_loop(lambda i, _: i < 3, body, [tf.constant(0), x])
        with tf.device(IPU):
            z = y + x
    finally:
        tf1.enable_control_flow_v2()
    np.testing.assert_allclose(session.run(z), (X + 1) * 9, rtol=1e-6)


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_outfeed_can_be_filled(replicas: int) -> None:
    _configure(replicas)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        with ipu.scopes.ipu_scope(IPU):
            x = tf1.placeholder(tf.float32, [4, 4])
            enqueue = queue.enqueue(x * 2)
        dequeue = queue.dequeue()
        for i in range(3):
            session.run(enqueue, {x: X + i})
        values = session.run(dequeue)
    expected = np.stack([(X + i) * 2 for i in range(3)])
    if replicas > 1:
        expected = np.stack([expected] * replicas, axis=1)
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_replicas_draw_their_own_numbers_unless_told_otherwise() -> None:
    _configure(2, esr=True)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        with ipu.scopes.ipu_scope(IPU):
            enqueue = queue.enqueue(tf.cast(tf.fill([500], 0.1), tf.float16))
        dequeue = queue.dequeue()
        session.run(enqueue)
        ((first, second),) = session.run(dequeue)
        ipu.utils.reset_ipu_seed(3, experimental_identical_replicas=True)
        session.run(enqueue)
        ((same, equal),) = session.run(dequeue)
    assert (first != second).any()
    np.testing.assert_array_equal(same, equal)


@pytest.mark.parametrize("layer", ["PopnnLSTM", "PopnnGRU"])
def test_recurrent_layers_are_made_and_initialized_there(session: tf1.Session, layer: str) -> None:
    with ipu.scopes.ipu_scope(IPU):
        x = tf1.placeholder(tf.float32, [6, 2, 4])
        outputs, _ = getattr(ipu.rnn_ops, layer)(3)(x, training=True)
        (gradient,) = tf.gradients(outputs, x)
    session.run(tf1.global_variables_initializer())
    values, slopes = session.run([outputs, gradient], {x: np.ones([6, 2, 4])})
    assert values.shape == (6, 2, 3)
    assert np.abs(values).max() > 0
    assert np.abs(slopes).max() > 0


def test_the_compile_summary_has_their_events() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config._profiling.enable_ipu_events = True
    config.configure_ipu_system()
    with tf.Graph().as_default(), tf1.Session() as session:
        with ipu.scopes.ipu_scope(IPU):
            x = tf1.placeholder(tf.float32, [4, 4])
            y = tf.matmul(x, x)
        summary = summary_ops.ipu_compile_summary("compile", [y])
        _, written = session.run([y, summary], {x: X})
    (value,) = tf1.Summary.FromString(written).value
    traced = [IpuTraceEvent.FromString(event) for event in tf.make_ndarray(value.tensor).flat]
    assert IpuTraceEvent.COMPILE_END in [event.type for event in traced]


def test_an_error_names_op_and_line(session: tf1.Session) -> None:
    with ipu.scopes.ipu_scope(IPU):
        x = tf1.placeholder(tf.float32, [None, 4])
        y = tf.matmul(x, x, name="product")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"product.*test_placed_ops\.py:\d+"):
        session.run(y, {x: np.ones([3, 4])})


def test_a_function_is_compiled_too() -> None:
    _configure()

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.device(IPU):
            return tf.reduce_mean(x)

    assert step(tf.constant(np.full(10000, 32752, np.float16))).numpy() == 32752
    assert len(_programs()) == 1


def test_error_of_a_function_names_op_and_line() -> None:
    _configure()

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.device(IPU):
            return tf.matmul(x, x, name="product")

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"product.*test_placed_ops\.py:\d+"):
        step.get_concrete_function(tf.TensorSpec([None, 4]))(tf.ones([3, 4]))


def test_of_resources_of_a_function_programs_have_variables() -> None:
    _configure()
    with tf.device(IPU):
        variable = tf.Variable(np.full(1000, 32752, np.float16))
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4], tf.int32, tf.int32), 0
    )

    @tf.function
    def step(keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(IPU):
            variable.assign_add(tf.zeros([1000], tf.float16))
            return tf.reduce_mean(variable), table.lookup(keys)

    mean, found = step(tf.constant([2, 7]))
    assert mean.numpy() == 32752  # on the host, the sum of float16 would be infinite
    np.testing.assert_array_equal(found, [4, 0])
    (program,) = CACHE.all()
    assert [argument.is_variable for argument in program.arguments] == [True]


def test_without_a_configuration_the_host_runs_them(
    run_program: Callable[..., Any],
) -> None:
    code = """
import tensorflow as tf
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    with tf.device("/device:IPU:0"):
        x = tf.compat.v1.placeholder(tf.float32, [2])
        y = x * 2
    print(session.run(y, {x: [1, 2]}))
"""
    assert "[2. 4.]" in run_program(code).stdout


@pytest.mark.lifetimes
def test_programs_go_with_their_session() -> None:
    _configure()
    gc.collect()
    loaded = native.counts().programs
    for i in range(3):
        with tf.Graph().as_default(), tf1.Session() as session:
            with ipu.scopes.ipu_scope(IPU):
                y = tf.constant(X) * (i + 2.0)
            session.run(y)
    gc.collect()
    assert native.counts().programs == loaded


_OPS = (tf.add, tf.maximum, lambda a, _: tf.sin(a), lambda a, b: a * 0.5 - b)


def _random_graph(seed: int, devices: list[str]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Builds ops on random devices, with random inputs and control inputs, and assignments."""
    random = np.random.default_rng(seed)
    fed = [tf1.placeholder(tf.float32, [3]) for _ in range(2)]
    with tf1.variable_scope("v", use_resource=True), tf.device(devices[1]):
        variable = tf1.get_variable("v", initializer=tf.ones([3]))
    tensors: list[tf.Tensor] = [*fed]
    writes: list[tf.Operation] = []
    for _ in range(40):
        a, b = (tensors[random.integers(len(tensors))] for _ in range(2))
        control = [tensors[i].op for i in random.integers(2, len(tensors), 2)] if writes else []
        with tf.device(devices[random.integers(len(devices))]), tf.control_dependencies(control):
            tensors.append(_OPS[random.integers(len(_OPS))](a, b))
        if random.integers(6) == 0:  # one write after the other
            with tf.device(devices[1]), tf.control_dependencies([*writes, tensors[-1].op]):
                write = variable.assign_add(tensors[-1])
                with tf.control_dependencies([write]):
                    tensors.append(variable.read_value())
            writes = [tensors[-1].op]
    return fed, tensors


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_on_devices_equal_host(seed: int) -> None:
    _configure([1, 1])
    feeds = [np.float32([1, 2, 3]), np.float32([-1, 0.5, 2])]
    results = []
    for devices in (["/cpu:0"] * 3, ["/cpu:0", IPU, "/device:IPU:1"]):
        with tf.Graph().as_default(), tf1.Session() as session:
            fed, tensors = _random_graph(seed, devices)
            session.run(tf1.global_variables_initializer())
            results.append(session.run(tensors, dict(zip(fed, feeds))))
    for want, got in zip(*results):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
