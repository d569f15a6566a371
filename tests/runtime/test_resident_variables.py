"""Values that variables of replicas keep between launches."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tensorflow_ipu.runtime import system
from tests.support.programs import replicas

tf1 = tf.compat.v1

# As many elements as are 4 MB.
LARGE = 1 << 20

Update = Callable[[tf.Variable], Any]


@pytest.fixture
def strategy() -> Iterator[ipu_strategy.IPUStrategy]:
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        yield strategy


def _add_own(variable: tf.Variable) -> Any:
    """Adds 1 on replica 0, 2 on replica 1 and so on."""
    own = tf.cast(replication_ops.replication_index() + 1, variable.dtype)
    return variable.assign_add(tf.fill(variable.shape, own))


class _Program:
    """A program that updates a variable and returns its value on each replica."""

    def __init__(self, variable: tf.Variable, update: Update = _add_own) -> None:
        self._queue = queue = IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def program() -> None:
            update(variable)
            queue.enqueue(variable.read_value())

        self._program = program

    def __call__(self) -> np.ndarray:
        """Returns the values, [replicas, ...]."""
        current_scope.current().run(self._program)
        return np.asarray(self._queue.dequeue())[0]


def _run_another(strategy: ipu_strategy.IPUStrategy) -> None:
    """Runs a program that has nothing to do with any variable."""

    @tf.function(jit_compile=True)
    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(x)

    strategy.run(program, [tf.zeros([3])])


def _own(count: int, launches: int = 1) -> np.ndarray:
    """Returns the sum of each replica after some launches."""
    return launches * np.arange(1, count + 1)


def _large_tensors() -> float:
    """How much memory TensorFlow has given out, in units of `LARGE` float32."""
    gc.collect()
    return round(tf.config.experimental.get_memory_info("CPU:0")["current"] / (4 * LARGE), 1)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.int32, tf.int64])
def test_each_replica_adds_up_its_own(
    strategy: ipu_strategy.IPUStrategy, count: int, dtype: tf.DType
) -> None:
    replicas.configure(count)
    variable = tf.Variable(0, dtype=dtype)
    program = _Program(variable)
    for launch in range(1, 5):
        np.testing.assert_array_equal(program(), _own(count, launch))
        assert variable.numpy() == launch


def test_one_replica_keeps_its_value(strategy: ipu_strategy.IPUStrategy) -> None:
    replicas.configure(1)
    variable = tf.Variable(0)
    program = _Program(variable)
    assert [int(program()) for _ in range(3)] == [1, 2, 3]


def test_many_variables_keep_their_values(strategy: ipu_strategy.IPUStrategy) -> None:
    replicas.configure(2)
    variables = [tf.Variable(10.0 * i) for i in range(20)]
    queue = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program() -> None:
        for variable in variables[::2]:
            _add_own(variable)
        queue.enqueue(tf.stack([tf.identity(variable) for variable in variables]))

    for _ in range(3):
        strategy.run(program)
    start = np.arange(20) * 10.0
    added = np.where(np.arange(20) % 2 == 0, 3, 0)
    np.testing.assert_array_equal(queue.dequeue()[-1], [start + added, start + 2 * added])


class TestSession:
    """TensorFlow 1's way."""

    def test_each_replica_adds_up_its_own(self) -> None:
        replicas.configure(4)
        with tf.Graph().as_default(), tf1.Session() as session:
            launch, dequeue, variable = _counter()
            session.run(variable.initializer)
            for number in range(1, 4):
                session.run(launch)
                np.testing.assert_array_equal(session.run(dequeue)[0], _own(4, number))
            session.run(variable.initializer)
            session.run(launch)
            np.testing.assert_array_equal(session.run(dequeue)[0], _own(4))

    def test_sessions_have_their_own(self) -> None:
        replicas.configure(2)
        with tf.Graph().as_default():
            launch, dequeue, variable = _counter()
            for _ in range(2):
                with tf1.Session() as session:
                    session.run(variable.initializer)
                    session.run(launch)
                    session.run(launch)
                    np.testing.assert_array_equal(session.run(dequeue)[-1], _own(2, 2))

    def test_memory_of_a_closed_session_is_freed(self) -> None:
        replicas.configure(4)
        before = _large_tensors()
        with tf.Graph().as_default():
            with scopes.ipu_scope("/device:IPU:0"):
                variable = tf1.get_variable(
                    "v", [LARGE], initializer=tf1.random_uniform_initializer(), use_resource=True
                )
                launch = ipu_compiler.compile(lambda: _add_own(variable).op, [])
            with tf1.Session() as session:
                session.run(variable.initializer)
                session.run(launch)
                assert _large_tensors() == before + 4
        assert _large_tensors() == before


def _counter() -> tuple[tf.Operation, tf.Tensor, tf.Variable]:
    """Returns a program that counts, the reader of its outfeed, and the variable."""
    queue = IPUOutfeedQueue()
    with scopes.ipu_scope("/device:IPU:0"):
        variable = tf1.get_variable("counter", initializer=0.0, use_resource=True)

        def body() -> tf.Operation:
            with tf.control_dependencies([_add_own(variable)]):
                return queue.enqueue(variable.read_value())

        launch = ipu_compiler.compile(body, [])
    return launch, queue.dequeue(), variable


def _scatter_add(variable: tf.Variable) -> None:
    variable.scatter_nd_add([[0]], [5.0])


def _scatter_update(variable: tf.Variable) -> None:
    variable.scatter_update(tf.IndexedSlices(tf.constant([5.0]), tf.constant([0])))


def _slice_assign(variable: tf.Variable) -> None:
    variable[:1].assign([5.0])


class TestWritesOfTheUser:
    """All replicas get values that the user writes between launches."""

    WRITES = {
        "assign": lambda variable: variable.assign([5.0, 6.0]),
        "assign_numpy": lambda variable: variable.assign(variable.numpy()),
        "assign_add": lambda variable: variable.assign_add([5.0, 6.0]),
        "assign_sub": lambda variable: variable.assign_sub([5.0, 6.0]),
        "scatter_add": _scatter_add,
        "scatter_update": _scatter_update,
        "slice": _slice_assign,
    }

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("write", list(WRITES))
    def test_writes_reach_all_replicas(
        self, strategy: ipu_strategy.IPUStrategy, write: str, sparse: bool
    ) -> None:
        replicas.configure(4)
        variable = tf.Variable([0.0, 0.0])
        if sparse:
            # From here on TensorFlow keeps the variable ready for updates of rows.
            _scatter_add(variable)
        program = _Program(variable)
        program()
        program()
        self.WRITES[write](variable)
        written = variable.numpy()
        np.testing.assert_array_equal(program(), written + _own(4)[:, np.newaxis])
        np.testing.assert_array_equal(program(), written + _own(4, 2)[:, np.newaxis])

    def test_writes_in_a_function_reach_all_replicas(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        replicas.configure(2)
        variable = tf.Variable(0.0)
        program = _Program(variable)

        @tf.function
        def write() -> None:
            variable.assign(100.0)

        program()
        write()
        np.testing.assert_array_equal(program(), [101, 102])

    def test_affect_that_variable_only(self, strategy: ipu_strategy.IPUStrategy) -> None:
        replicas.configure(2)
        first, second = tf.Variable(0.0), tf.Variable(0.0)
        queue = IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def program() -> None:
            _add_own(first)
            _add_own(second)
            queue.enqueue(tf.stack([tf.identity(first), tf.identity(second)]))

        strategy.run(program)
        first.assign(10.0)
        strategy.run(program)
        np.testing.assert_array_equal(queue.dequeue()[-1], [[11, 2], [12, 4]])

    def test_writing_the_same_constant_again_reaches_all_replicas(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        """Also where replica 0 has still the constant, whose buffer TensorFlow uses again."""
        replicas.configure(2)
        variable = tf.Variable(7.0)

        def update(variable: tf.Variable) -> None:
            is_first = tf.equal(replication_ops.replication_index(), 0)
            tf.cond(is_first, lambda: 0.0, lambda: variable.assign_add(1.0) * 0)

        program = _Program(variable, update)
        for _ in range(3):
            variable.assign(0.0)
            np.testing.assert_array_equal(program(), [0, 1])
        np.testing.assert_array_equal(program(), [0, 2])


class TestReads:
    """Reads of the user between launches change nothing."""

    def test_reading_a_variable_changes_no_replica(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        replicas.configure(2)
        variable = tf.Variable([0.0, 0.0])
        program = _Program(variable)
        kept = [program(), variable.numpy(), variable.read_value()]
        program()
        kept.append(variable + 1.0)
        np.testing.assert_array_equal(program(), [[3, 3], [6, 6]])
        np.testing.assert_array_equal(kept[1], [1, 1])
        np.testing.assert_array_equal(kept[2], [1, 1])

    def test_reading_rows_changes_no_replica(self, strategy: ipu_strategy.IPUStrategy) -> None:
        """Such a read makes TensorFlow copy the variable, as a write would."""
        replicas.configure(2)
        variable = tf.Variable([0.0, 0.0])
        program = _Program(variable)
        program()
        np.testing.assert_array_equal(tf.gather(variable, [1]), [1])
        np.testing.assert_array_equal(program(), [[2, 2], [4, 4]])

    def test_results_that_share_the_variable(self, strategy: ipu_strategy.IPUStrategy) -> None:
        replicas.configure(2)
        variable, queue = tf.Variable([0.0]), IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def program() -> tf.Tensor:
            _add_own(variable)
            queue.enqueue(variable.read_value())
            return variable.read_value()

        results = [strategy.run(program) for _ in range(3)]
        np.testing.assert_array_equal(results, [[1], [2], [3]])
        np.testing.assert_array_equal(queue.dequeue()[-1], [[3], [6]])
        # As it is a result, too, it counts as written.
        variable.assign(results[-1])
        strategy.run(program)
        np.testing.assert_array_equal(queue.dequeue()[-1], [[4], [5]])


class TestUpdatesOfRows:
    """Programs that read and write rows of a variable."""

    @pytest.mark.parametrize("count", [2, 4])
    def test_each_replica_adds_up_its_own(
        self, strategy: ipu_strategy.IPUStrategy, count: int
    ) -> None:
        replicas.configure(count)
        variable = tf.Variable(tf.zeros([count, 2]))

        def update(variable: tf.Variable) -> None:
            row = replication_ops.replication_index()
            variable.scatter_nd_add([[row]], tf.gather(variable, [row]) + 1.0)

        program = _Program(variable, update)
        for launch in range(1, 4):
            expected = np.zeros([count, count, 2])
            expected[range(count), range(count)] = 2**launch - 1
            np.testing.assert_array_equal(program(), expected)
            np.testing.assert_array_equal(variable.numpy(), expected[0])

    def test_write_of_the_user_replaces_updates_of_rows(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        replicas.configure(2)
        variable = tf.Variable(tf.zeros([2]))

        def update(variable: tf.Variable) -> None:
            variable.scatter_nd_add([[replication_ops.replication_index()]], [1.0])

        program = _Program(variable, update)
        np.testing.assert_array_equal(program(), [[1, 0], [0, 1]])
        _scatter_add(variable)
        np.testing.assert_array_equal(program(), [[7, 0], [6, 1]])
        np.testing.assert_array_equal(program(), [[8, 0], [6, 2]])


class TestLifetime:
    """Kept values go with the program, the configuration and the variable."""

    def test_values_survive_another_program_in_between(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        replicas.configure(4)
        program = _Program(tf.Variable(0.0))
        program()
        program()
        _run_another(strategy)
        np.testing.assert_array_equal(program(), 2 + _own(4))

    def test_another_program_goes_on_with_the_values(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        replicas.configure(2)
        variable = tf.Variable(0.0)
        add, double = _Program(variable), _Program(variable, lambda v: v.assign(v * 2.0))
        np.testing.assert_array_equal(add(), [1, 2])
        np.testing.assert_array_equal(double(), [2, 2])
        np.testing.assert_array_equal(add(), [3, 4])

    def test_another_variable_of_equal_program_is_its_own(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        """Equal programs are one Executable."""
        replicas.configure(2)
        queue = IPUOutfeedQueue()
        variables = [tf.Variable(0.0), tf.Variable(10.0)]

        def made_for(variable: tf.Variable) -> Callable[[], None]:
            @tf.function(jit_compile=True)
            def program() -> None:
                _add_own(variable)
                queue.enqueue(variable.read_value())

            return program

        first, second = map(made_for, variables)
        for program in (first, first, second, first, first):
            strategy.run(program)
        expected = [[1, 2], [2, 4], [11, 12], [3, 4], [4, 6]]
        np.testing.assert_array_equal(queue.dequeue(), expected)

    def test_error_in_between_restarts_from_value_of_user(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        replicas.configure(2)
        variable = tf.Variable(0.0)
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(tf.zeros([6])))
        queue = IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def program() -> None:
            variable.assign_add(infeed._dequeue())
            _add_own(variable)
            queue.enqueue(variable.read_value())

        infeed.initializer  # noqa: B018
        for _ in range(3):
            strategy.run(program)
        np.testing.assert_array_equal(queue.dequeue()[-1], [3, 6])
        with pytest.raises(tf.errors.OutOfRangeError):
            strategy.run(program)
        infeed.deleter  # noqa: B018
        infeed.initializer  # noqa: B018
        start = variable.numpy()
        strategy.run(program)
        np.testing.assert_array_equal(queue.dequeue()[-1], start + _own(2))

    def test_new_configuration_restarts_from_value_of_user(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        variable = tf.Variable(0.0)
        program = _Program(variable)
        for number, count in enumerate([2, 2, 4]):
            system.reset_ipu_configuration()
            replicas.configure(count)
            np.testing.assert_array_equal(program(), number + _own(count))

    def test_memory_of_replicas_is_freed_by_next_program(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        """Replicas have memory of their own until another program is loaded."""
        replicas.configure(4)
        before = _large_tensors()
        variable = tf.Variable(tf.zeros([LARGE]))

        @tf.function(jit_compile=True)
        def program() -> None:
            _add_own(variable)

        for _ in range(3):
            strategy.run(program)
            assert _large_tensors() == before + 4
        _run_another(strategy)
        assert _large_tensors() == before + 1

    def test_memory_of_what_is_only_read(self, strategy: ipu_strategy.IPUStrategy) -> None:
        replicas.configure(4)
        before = _large_tensors()
        variable = tf.Variable(tf.zeros([LARGE]))

        @tf.function(jit_compile=True)
        def program() -> tf.Tensor:
            return tf.exp(variable[0])

        strategy.run(program)
        assert _large_tensors() == before + 1

    @pytest.mark.lifetimes
    def test_memory_of_a_deleted_variable_is_freed(
        self, strategy: ipu_strategy.IPUStrategy
    ) -> None:
        replicas.configure(4)
        before = _large_tensors()

        def run() -> None:
            variable = tf.Variable(tf.zeros([LARGE]))

            @tf.function(jit_compile=True)
            def program() -> None:
                _add_own(variable)

            strategy.run(program)

        run()
        system.reset_ipu_configuration()
        assert _large_tensors() == before


def test_sums_over_replicas_keep_their_state(strategy: ipu_strategy.IPUStrategy) -> None:
    """State of replicas is summed by a collective, as for metrics."""
    replicas.configure(4)
    total = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def program() -> tf.Tensor:
        _add_own(total)
        return cross_replica_ops.cross_replica_sum(total.read_value())

    assert [float(strategy.run(program)) for _ in range(3)] == [10, 20, 30]
