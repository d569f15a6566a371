"""The TensorFlow device of type IPU: ops that are not compiled, against the same on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.programs import replicas

tf1 = tf.compat.v1
IPU = "/device:IPU:0"
CPU = "/device:CPU:0"
X = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(4, 4)
_NO_KERNEL = "no supported kernel for IPU devices is available"
_CANNOT_ASSIGN = "Cannot assign a device for operation"

Program = Callable[[tf.Tensor], Any]


@pytest.fixture(autouse=True)
def hard_placement() -> Iterator[None]:
    """Makes TensorFlow put an op where it was told to, or fail."""
    before = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    yield
    tf.config.set_soft_device_placement(before)


def _session() -> tf1.Session:
    return tf1.Session(config=tf1.ConfigProto(allow_soft_placement=False))


def _matmul(x: tf.Tensor) -> Any:
    return tf.nn.softmax(tf.matmul(x, x, transpose_b=True))


def _convolution(x: tf.Tensor) -> Any:
    image = tf.reshape(x, [1, 4, 4, 1])
    features = tf.nn.conv2d(image, tf.reshape(x, [2, 2, 1, 4]), 1, "SAME")
    return tf.nn.max_pool2d(tf.nn.relu(features), 2, 2, "VALID")


def _condition(x: tf.Tensor) -> Any:
    positive = tf.reduce_sum(x) > -0.5
    return tf.cond(positive, lambda: x * 2, lambda: x - 1), tf.switch_case(
        tf.constant(1), [lambda: x, lambda: -x]
    )


def _loop(x: tf.Tensor) -> Any:
    return tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, y * 0.5 + x), [tf.constant(0), x])


def _gradient(x: tf.Tensor) -> Any:
    def loss() -> tf.Tensor:
        _, y = tf.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, x))), [0, x]
        )
        return tf.reduce_sum(tf.cond(y[0, 0] > 9, lambda: y, lambda: y * y))

    if not tf.executing_eagerly():
        return tf1.gradients(loss(), x)  # A tape cannot see through the loops of TensorFlow 1.
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss()
    return tape.gradient(value, x)


def _tensor_array(x: tf.Tensor) -> Any:
    array = tf.TensorArray(tf.float32, size=3, element_shape=[4, 4], clear_after_read=False)
    for i in range(3):
        array = array.write(i, x * float(i))
    return array.stack(), array.read(2)


def _map(x: tf.Tensor) -> Any:
    return tf.map_fn(tf.reduce_logsumexp, x), tf.scan(lambda a, b: a * 0.5 + b, x)


def _sort(x: tf.Tensor) -> Any:
    top = tf.math.top_k(x, 2)
    return tf.sort(x, direction="DESCENDING"), top.values, top.indices, tf.argsort(x)


def _gather(x: tf.Tensor) -> Any:
    rows = tf.constant([3, 0, 3])
    return (
        tf.gather(x, rows),
        tf.math.unsorted_segment_sum(x[:3], rows, 4),
        tf.tensor_scatter_nd_add(x, [[0], [2]], x[:2]),
        tf.one_hot(rows, 5),
    )


def _linear_algebra(x: tf.Tensor) -> Any:
    matrix = tf.matmul(x, x, transpose_b=True) + 3 * tf.eye(4)
    return tf.linalg.cholesky(matrix), tf.linalg.inv(matrix), tf.einsum("ij,kj->ki", x, x)


def _types(x: tf.Tensor) -> Any:
    scaled = x * 100
    wide = tf.cast(scaled, tf.int64)
    return (
        tf.cast(tf.cast(scaled, tf.float16) * 2, tf.float32),
        wide * 3,
        tf.cast(tf.abs(scaled), tf.uint8),
        tf.logical_not(x > 0),
        tf.bitcast(x, tf.int32),
    )


def _stateless_random(x: tf.Tensor) -> Any:
    return tf.random.stateless_normal([5], [1, 2]) * x[0, 0]


PROGRAMS = [
    _matmul, _convolution, _condition, _loop, _gradient, _tensor_array, _map, _sort, _gather,
    _linear_algebra, _types, _stateless_random,
]  # fmt: skip


def _eager(program: Program, device: str) -> list[np.ndarray]:
    with tf.device(device):
        results = tf.nest.flatten(program(tf.identity(tf.constant(X))))
    assert all(result.device.endswith(device) for result in results)
    return [result.numpy() for result in results]


def _function(program: Program, device: str) -> list[np.ndarray]:
    @tf.function
    def traced(x: tf.Tensor) -> Any:
        with tf.device(device):
            return program(x)

    return [result.numpy() for result in tf.nest.flatten(traced(tf.constant(X)))]


def _graph(program: Program, device: str, version: int) -> list[np.ndarray]:
    with tf.Graph().as_default():
        (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
        try:
            x = tf1.placeholder(tf.float32, [4, 4])
            with tf.device(device):
                results = tf.nest.flatten(program(x))
        finally:
            tf1.enable_control_flow_v2()
        with _session() as session:
            return session.run(results, {x: X})


def _assert_equal(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


# Keras asks for physical devices whether models are compiled with XLA. The second line is after the
# program has begun to use IPUs.
_WITHOUT_IPUS = """
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=True)
model(tf.zeros([2, 3]))
print([device.device_type for device in tf.config.list_physical_devices()], model.jit_compile)

from tensorflow.python import ipu
ipu.config.IPUConfig().configure_ipu_system()
with tf.device("/device:IPU:0"):
    total = tf.constant(1.0) + 2.0
for devices in (tf.config.list_physical_devices(), tf.config.get_visible_devices()):
    print([device.device_type for device in devices], total.numpy())
"""


class TestDevices:
    """Devices listed by TensorFlow."""

    def test_the_device_is_listed(self) -> None:
        devices = tf.config.list_physical_devices("IPU")
        assert devices[0].name == "/physical_device:IPU:0"
        details = tf.config.experimental.get_device_details(devices[0])
        assert "IPU" in details["device_name"]

    def test_a_program_without_ipus_lists_none(self, run_python: Any) -> None:
        assert run_python(_WITHOUT_IPUS).stdout.splitlines() == [
            "['CPU'] True",
            "['CPU', 'IPU'] 3.0",
            "['CPU', 'IPU'] 3.0",
        ]

    def test_a_session_lists_sixteen_devices(self) -> None:
        with tf.Graph().as_default(), _session() as session:
            devices = [device.name for device in session.list_devices()]
        assert [name for name in devices if "IPU" in name] == [
            f"/job:localhost/replica:0/task:0/device:IPU:{k}" for k in range(16)
        ]

    @pytest.mark.parametrize("ordinal", [1, 15])
    def test_every_ordinal_runs_ops(self, ordinal: int) -> None:
        device = f"/device:IPU:{ordinal}"
        with tf.device(device):
            variable = tf.Variable(3.0)
            product = variable * 2.0
        assert variable.device.endswith(device)
        assert product.device.endswith(device)
        assert product.numpy() == 6.0

    def test_there_is_no_seventeenth(self) -> None:
        with pytest.raises((tf.errors.InvalidArgumentError, RuntimeError), match="IPU:16"):
            with tf.device("/device:IPU:16"):
                tf.identity(tf.ones([2]))


class TestResultsEqualTheCpus:
    """The same ops under /device:IPU:0 and /device:CPU:0."""

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_eager_results_equal_the_cpus(self, program: Program) -> None:
        _assert_equal(_eager(program, IPU), _eager(program, CPU))

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_functions_give_the_results_of_the_cpus(self, program: Program) -> None:
        _assert_equal(_function(program, IPU), _function(program, CPU))

    @pytest.mark.parametrize("program", PROGRAMS)
    @pytest.mark.parametrize("version", [1, 2])
    def test_sessions_give_the_results_of_the_cpus(self, program: Program, version: int) -> None:
        _assert_equal(_graph(program, IPU, version), _graph(program, CPU, version))


def _keras_lstm(device: str) -> list[np.ndarray]:
    with tf.device(device):
        layer = tf.keras.layers.LSTM(
            3,
            kernel_initializer=tf.keras.initializers.GlorotUniform(seed=1),
            recurrent_initializer=tf.keras.initializers.GlorotUniform(seed=2),
        )
        x = tf.reshape(tf.constant(X), [2, 2, 4])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        return [g.numpy() for g in tape.gradient(loss, layer.trainable_variables)]


def test_lstm_and_its_gradients_equal_the_cpus() -> None:
    _assert_equal(_keras_lstm(IPU), _keras_lstm(CPU))


def _graph_lstm(device: str) -> list[np.ndarray]:
    with tf.Graph().as_default():
        with tf.device(device), tf1.variable_scope("", use_resource=True):
            cell = tf1.nn.rnn_cell.LSTMCell(
                3, name="lstm", initializer=tf1.glorot_uniform_initializer(seed=1)
            )
            outputs, _ = tf1.nn.dynamic_rnn(cell, X.reshape(2, 2, 4), dtype=tf.float32)
            loss = tf.reduce_sum(outputs**2)
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        with _session() as session:
            session.run(tf1.global_variables_initializer())
            losses = [session.run([loss, train])[0] for _ in range(3)]
            return [np.array(losses), *session.run(tf1.trainable_variables())]


@pytest.mark.filterwarnings("ignore:.*LSTMCell.*:UserWarning")
def test_lstm_trained_in_a_session_equals_the_cpus() -> None:
    _assert_equal(_graph_lstm(IPU), _graph_lstm(CPU))


class TestVariables:
    """Resource variables on the device."""

    def test_variables_are_updated_eagerly_and_in_functions(self) -> None:
        with tf.device(IPU):
            variable = tf.Variable([1.0, 2.0])

            @tf.function
            def step(x: tf.Tensor) -> tf.Tensor:
                variable.assign_add(x)
                return variable * 2

            variable.assign(variable * 10)
            result = step(tf.constant([1.0, 1.0]))
        assert variable.device.endswith(IPU)
        np.testing.assert_array_equal(result, [22, 42])
        np.testing.assert_array_equal(variable.numpy(), [11, 21])

    def test_variables_are_updated_in_a_session(self) -> None:
        with tf.Graph().as_default():
            with tf.device(IPU):
                variable = tf1.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
                update = tf1.assign_add(variable, [1.0, 1.0])
            with _session() as session:
                session.run(variable.initializer)
                session.run(update)
                np.testing.assert_array_equal(session.run(variable), [2, 3])

    def test_optimizer_steps_equal_the_cpus(self) -> None:
        def train(device: str) -> list[np.ndarray]:
            with tf.device(device):
                weights = tf.Variable(X[:, :2])
                optimizer = tf.keras.optimizers.Adam(0.1)
                for _ in range(5):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean((tf.matmul(tf.constant(X), weights) - 1) ** 2)
                    optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
                return [weights.numpy(), loss.numpy()]

        _assert_equal(train(IPU), train(CPU))


class TestQueuesAndIterators:
    """Ops that wait, which must not hold a thread that others need."""

    def test_a_queue_works_in_a_session(self) -> None:
        with tf.Graph().as_default():
            with tf.device(IPU):
                queue = tf.queue.FIFOQueue(2, [tf.float32], shapes=[[]])
                value = tf1.placeholder(tf.float32, [])
                enqueue, dequeue, close = queue.enqueue(value), queue.dequeue(), queue.close()
            with _session() as session:
                session.run(enqueue, {value: 1.0})
                session.run(enqueue, {value: 2.0})
                assert session.run(dequeue) == 1.0
                assert session.run(dequeue) == 2.0
                session.run(close)
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(dequeue)

    def test_a_blocked_dequeue_obeys_the_timeout(self) -> None:
        with tf.Graph().as_default():
            with tf.device(IPU):
                dequeue = tf.queue.FIFOQueue(2, [tf.float32], shapes=[[]]).dequeue()
            with _session() as session, pytest.raises(tf.errors.DeadlineExceededError):
                session.run(dequeue, options=tf1.RunOptions(timeout_in_ms=50))

    def test_an_iterator_works_in_a_session(self) -> None:
        with tf.Graph().as_default():
            with tf.device(IPU):
                dataset = tf.data.Dataset.range(3).map(lambda i: tf.cast(i, tf.float32) * 2)
                iterator = tf1.data.make_initializable_iterator(dataset)
                following = iterator.get_next()
            with _session() as session:
                session.run(iterator.initializer)
                assert [session.run(following) for _ in range(3)] == [0.0, 2.0, 4.0]
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(following)

    def test_an_iterator_works_in_eager_mode(self) -> None:
        with tf.device(IPU):
            values = [value.numpy() for value in tf.data.Dataset.from_tensor_slices([1, 2, 3])]
        assert values == [1, 2, 3]


class TestChecks:
    """Assert and CheckNumerics are dropped on the device, and only there."""

    def test_checks_on_device_do_nothing_in_eager_mode(self) -> None:
        with tf.device(IPU):
            tf.raw_ops.Assert(condition=False, data=[tf.constant(1.0)])
            value = tf.debugging.check_numerics(tf.constant([np.nan, 1.0]), "bad")
        np.testing.assert_array_equal(value, [np.nan, 1.0])
        with tf.device(CPU), pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            tf.debugging.check_numerics(tf.constant([np.nan, 1.0]), "bad")

    def test_the_first_is_said(self, run_program: Callable[..., Any]) -> None:
        process = run_program(
            "import tensorflow as tf\n"
            "with tf.device('/device:IPU:0'):\n"
            "    tf.debugging.check_numerics(tf.constant([1.0]), 'first')\n"
            "    tf.debugging.check_numerics(tf.constant([1.0, 2.0]), 'second')\n"
        )
        assert process.stderr.count("IPUs have no checks of values: CheckNumerics") == 1

    def test_checks_on_device_do_nothing_in_a_session(self) -> None:
        replicas.configure(1)  # from then on, what is placed runs as a program
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float32, [])
            with tf.device(IPU):
                check = tf1.Assert(x > 0, ["not positive", x])
                with tf.control_dependencies([check]):
                    y = tf.debugging.check_numerics(x, "bad") * 2
            with tf.device(CPU), tf.control_dependencies([tf1.Assert(x > 0, ["no", x])]):
                z = x * 2
            with _session() as session:
                assert session.run(y, {x: -1.0}) == -2.0
                with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
                    session.run(z, {x: -1.0})


class TestPlacement:
    """Ops go to the IPU only if told to."""

    def test_ops_without_a_device_stay_on_the_cpu(self) -> None:
        assert (tf.ones([2]) * 2).device.endswith(CPU)
        assert tf.Variable(1.0).device.endswith(CPU)
        assert tf.function(lambda: tf.ones([2]) * 2)().device.endswith(CPU)

    def test_ops_without_device_stay_on_cpu_in_session(self) -> None:
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float32, [2])
            with tf.device(IPU):
                on_ipu = tf.exp(x, name="on_ipu")
            nowhere = tf.sin(on_ipu, name="nowhere")
            metadata = tf1.RunMetadata()
            options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
            with _session() as session:
                session.run(nowhere, {x: [1, 2]}, options, metadata)
        ran = {
            node.node_name: device.device
            for device in metadata.step_stats.dev_stats
            for node in device.node_stats
        }
        program = next(node for node in ran if node.startswith("cluster_placed"))
        assert ran[program].endswith(IPU)
        assert ran["nowhere"].endswith(CPU)

    def test_keras_model_stays_on_the_cpu(self) -> None:
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))])
        model.compile("sgd", "mse")
        model.fit(X, X[:, :2], verbose=0)
        assert all(variable.device.endswith(CPU) for variable in model.variables)


class TestRefusals:
    """Ops and types that the device lacks."""

    @pytest.mark.parametrize(
        "build",
        [
            lambda: tf.cast(tf.ones([2]), tf.float64),
            lambda: tf.constant([1.0], tf.float64) * 2,
            lambda: tf.constant([1.0 + 1.0j]) * 2,
            lambda: (
                tf1.get_variable(
                    "d", [2], tf.float64, tf1.zeros_initializer(), use_resource=True
                ).initializer
            ),
        ],
        ids=["cast", "float64", "complex64", "variable"],
    )
    def test_unsupported_types_are_refused_in_a_session(
        self, build: Callable[[], tf.Tensor]
    ) -> None:
        self._assert_refused_in_a_session(build)

    @pytest.mark.parametrize(
        "build",
        [
            lambda: tf1.get_variable("r", [2], use_resource=False),
            lambda: tf.signal.fft(tf1.placeholder_with_default(tf.complex(X, X), [4, 4])),
            lambda: tf.signal.rfft(tf.ones([8])),
            lambda: tf.complex(1.0, 2.0),
            lambda: tf.linalg.qr(tf.ones([2, 2]))[0],
        ],
        ids=["reference_variable", "fft", "rfft", "complex", "qr"],
    )
    def test_unsupported_ops_are_refused_in_a_session(self, build: Callable[[], tf.Tensor]) -> None:
        self._assert_refused_in_a_session(build)

    @staticmethod
    def _assert_refused_in_a_session(build: Callable[[], tf.Tensor]) -> None:
        with tf.Graph().as_default():
            with tf.device(IPU):
                result = build()
            with _session() as session:
                with pytest.raises(tf.errors.InvalidArgumentError, match=_NO_KERNEL) as error:
                    session.run(result)
                assert _CANNOT_ASSIGN in str(error.value)
        with tf.Graph().as_default(), _session() as session:
            assert session.run(tf.constant(1.0) + 1.0) == 2.0

    @pytest.mark.parametrize("soft", [False, True])
    def test_unsupported_ops_are_refused_in_a_function(self, soft: bool) -> None:
        tf.config.set_soft_device_placement(soft)

        @tf.function
        def transform(x: tf.Tensor) -> tf.Tensor:
            with tf.device(IPU):
                return tf.signal.rfft(x)

        with pytest.raises(tf.errors.InvalidArgumentError, match=_NO_KERNEL):
            transform(tf.ones([8]))

    def test_unsupported_types_are_refused_in_a_function(self) -> None:
        @tf.function
        def double(x: tf.Tensor) -> tf.Tensor:
            with tf.device(IPU):
                return x * 2

        with pytest.raises(tf.errors.InvalidArgumentError, match=_NO_KERNEL):
            double(tf.ones([8], tf.float64))

    @pytest.mark.parametrize(
        "build",
        [
            lambda: tf.constant([1.0], tf.float64) * 2,
            lambda: tf.cast(1.0, tf.float64),
            lambda: tf.signal.fft(tf.constant([1.0 + 0j])),
            lambda: tf.linalg.qr(tf.ones([2, 2])),
        ],
        ids=["float64", "cast", "fft", "qr"],
    )
    def test_unsupported_ops_are_refused_in_eager_mode(
        self, build: Callable[[], tf.Tensor]
    ) -> None:
        with tf.device(IPU), pytest.raises(tf.errors.InvalidArgumentError, match="IPU:0"):
            build()
        with tf.device(IPU):
            assert (tf.constant(1.0) + 1.0).numpy() == 2.0
