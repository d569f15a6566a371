"""Tests of infeed queues and of the iterators made of them."""

from __future__ import annotations

import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.configs import flags
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.feeds import ipu_outfeed_queue
from tensorflow_ipu.feeds.ipu_infeed_queue import feed_of
from tensorflow_ipu.ipu_infeed_queue import (
    DataInfeedQueue,
    IPUInfeedQueue,
    IPUIterator,
    IPUOwnedIterator,
    make_owned_iterator,
)
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.runtime import native, system

tf1 = tf.compat.v1


@pytest.fixture
def set_flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets TF_POPLAR_FLAGS as a new process would see it."""

    def apply(text: str) -> None:
        monkeypatch.setenv(flags.VARIABLE, text)
        flags._reset_for_tests()

    yield apply
    monkeypatch.undo()
    flags._reset_for_tests()


class GraphProgram:
    """A loop over an infeed in graph mode, which sends each element to an outfeed."""

    def __init__(self, queue: IPUInfeedQueue, iterations: int, ordinal: int = 0) -> None:
        outfeed = IPUOutfeedQueue(device_ordinal=ordinal)

        def body(*args: Any, **kwargs: Any) -> tf.Operation:
            return outfeed.enqueue(kwargs or args)

        with scopes.ipu_scope(f"/device:IPU:{ordinal}"):
            self.run = ipu_compiler.compile(lambda: loops.repeat(iterations, body, [], queue))
        self.dequeue = outfeed.dequeue()


class Gate:
    """A dataset function in Python that waits until it is let through."""

    def __init__(self) -> None:
        self.reached, self.released = threading.Event(), threading.Event()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()

    def _wait(self, x: np.ndarray) -> np.ndarray:
        self.reached.set()
        self.released.wait()
        return x

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(self._wait, [x], tf.float32), [])


def numbers(count: int, dtype: tf.DType = tf.float32) -> tf.data.Dataset:
    """A dataset of 0, 1, 2, ..."""
    return tf.data.Dataset.range(count).map(lambda x: tf.cast(x, dtype))


def run_graph(
    dataset: Callable[[], tf.data.Dataset],
    iterations: int,
    runs: int = 1,
    queue_class: type[IPUInfeedQueue] = IPUInfeedQueue,
    **kwargs: Any,
) -> Any:
    """Runs a loop over a dataset in graph mode and returns the elements."""
    with tf.Graph().as_default():
        queue = queue_class(dataset(), **kwargs)
        program = GraphProgram(queue, iterations)
        initializer, deleter = queue.initializer, queue.deleter
        with tf1.Session() as session:
            session.run(initializer)
            for _ in range(runs):
                session.run(program.run)
            arrived = session.run(program.dequeue)
            session.run(deleter)
    return arrived


# How elements are dealt.


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_elements_are_dealt_to_replicas_in_turn(configure: Any, replicas: int) -> None:
    configure(replicas)
    (arrived,) = run_graph(lambda: numbers(100), iterations=5, runs=2)
    expected = np.arange(10 * replicas, dtype=np.float32)
    np.testing.assert_array_equal(arrived.reshape(-1), expected)
    assert arrived.shape == ((10,) if replicas == 1 else (10, replicas))


def test_many_elements_arrive_in_order(configure: Any) -> None:
    configure(2)
    (arrived,) = run_graph(lambda: numbers(20_000, tf.int32), iterations=10_000)
    np.testing.assert_array_equal(arrived.reshape(-1), np.arange(20_000))


@pytest.mark.parametrize("depth", [1, 3, 255])
def test_the_prefetch_depth_does_not_change_results(configure: Any, depth: int) -> None:
    configure(2)
    (arrived,) = run_graph(
        lambda: numbers(40).map(lambda x: tf.fill([300, 300], x)), 5, prefetch_depth=depth
    )
    np.testing.assert_array_equal(arrived[..., 0, 0], np.arange(10).reshape(5, 2))


def test_a_dict_is_passed_by_keyword(configure: Any) -> None:
    configure(1)
    arrived = run_graph(
        lambda: numbers(4).map(lambda x: {"b": x, "a": (x + 1, (x + 2,))}), iterations=2
    )
    np.testing.assert_array_equal(arrived["b"], [0, 1])
    np.testing.assert_array_equal(arrived["a"][0], [1, 2])
    np.testing.assert_array_equal(arrived["a"][1][0], [2, 3])


def test_nested_members_stay_nested(configure: Any) -> None:
    configure(1)
    (first, second) = run_graph(lambda: numbers(4).map(lambda x: ((x, {"k": -x}), x * x)), 3)
    np.testing.assert_array_equal(first[1]["k"], [0, -1, -2])
    np.testing.assert_array_equal(second, [0, 1, 4])


def test_long_integers_lose_their_upper_half(configure: Any) -> None:
    configure(1)
    values = np.array([5, -5, 2**31, 2**32 + 7, -(2**40) - 1], np.int64)
    slices = tf.data.Dataset.from_tensor_slices
    (arrived,) = run_graph(lambda: slices(values), 5, queue_class=DataInfeedQueue)
    np.testing.assert_array_equal(arrived, values.astype(np.int32).astype(np.int64))
    assert arrived.dtype == np.int64


def test_cached_elements_are_not_changed_by_narrowing(configure: Any) -> None:
    configure(1)
    (arrived,) = run_graph(
        lambda: tf.data.Dataset.from_tensors(np.int64(2**32 + 1)).cache().repeat(),
        4,
        queue_class=DataInfeedQueue,
    )
    np.testing.assert_array_equal(arrived, [1, 1, 1, 1])


def test_a_python_generator_can_feed(configure: Any) -> None:
    configure(2)

    def generate() -> Iterator[np.float32]:
        yield from np.arange(100, dtype=np.float32)

    (arrived,) = run_graph(
        lambda: tf.data.Dataset.from_generator(
            generate, output_signature=tf.TensorSpec([], tf.float32)
        ),
        iterations=3,
    )
    np.testing.assert_array_equal(arrived, [[0, 1], [2, 3], [4, 5]])


def test_two_programs_share_a_queue(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(10))
        first, second = GraphProgram(queue, 2), GraphProgram(queue, 3)
        with tf1.Session() as session:
            session.run(queue.initializer)
            for program, expected in ((first, [0, 1]), (second, [2, 3, 4]), (first, [5, 6])):
                session.run(program.run)
                np.testing.assert_array_equal(session.run(program.dequeue)[0], expected)


def test_queues_of_different_sessions_are_independent(configure: Any) -> None:
    configure(1)
    for _ in range(3):
        (arrived,) = run_graph(lambda: numbers(3), 3)
        np.testing.assert_array_equal(arrived, [0, 1, 2])


# The end of the dataset, and errors in it.


@pytest.mark.parametrize("replicas", [1, 4])
def test_end_is_reported_each_time_until_restart(configure: Any, replicas: int) -> None:
    configure(replicas)
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(4 * replicas + replicas - 1))
        program = GraphProgram(queue, 2)
        initializer = queue.initializer
        with tf1.Session() as session:
            session.run(initializer)
            session.run(program.run)
            session.run(program.run)
            for _ in range(2):
                with pytest.raises(
                    tf.errors.OutOfRangeError, match="Infeed dataset iterator out of range"
                ):
                    session.run(program.run)
            session.run(program.dequeue)
            session.run(initializer)
            session.run(program.run)
            (arrived,) = session.run(program.dequeue)
    np.testing.assert_array_equal(arrived.reshape(-1), np.arange(2 * replicas))


def test_an_empty_dataset_names_drop_remainder(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(3).batch(8, drop_remainder=True))
        program = GraphProgram(queue, 2)
        with tf1.Session() as session:
            session.run(queue.initializer)
            with pytest.raises(tf.errors.OutOfRangeError, match="no elements.*drop_remainder"):
                session.run(program.run)


def test_a_failing_dataset_function_is_reported(configure: Any) -> None:
    configure(1)

    def fail_at_three(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.assert_less(x, 3.0)]):
            return tf.identity(x)

    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(10).map(fail_at_three))
        program = GraphProgram(queue, 2)
        with tf1.Session() as session:
            session.run(queue.initializer)
            session.run(program.run)
            for _ in range(2):
                with pytest.raises(
                    tf.errors.InvalidArgumentError,
                    match="An infeed dataset iterator has failed with status",
                ):
                    session.run(program.run)


def test_element_of_another_shape_than_declared_is_refused(configure: Any) -> None:
    configure(1)

    def lie(x: tf.Tensor) -> tf.Tensor:
        y = tf.numpy_function(lambda v: np.zeros(int(v) + 1, np.float32), [x], tf.float32)
        y.set_shape([1])
        return y

    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(4).map(lie))
        program = GraphProgram(queue, 2)
        with tf1.Session() as session:
            session.run(queue.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"is float\[2\]") as caught:
                session.run(program.run)
    assert "declares float[1]" in str(caught.value)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_waiting_program_obeys_the_time_limit(configure: Any, replicas: int) -> None:
    configure(replicas)
    with tf.Graph().as_default(), Gate() as gate:
        queue = IPUInfeedQueue(numbers(8).map(gate))
        program = GraphProgram(queue, 2)
        with tf1.Session() as session:
            session.run(queue.initializer)
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(program.run, options=tf1.RunOptions(timeout_in_ms=300))
            gate.released.set()
            session.run(program.run)
            (arrived,) = session.run(program.dequeue)
    np.testing.assert_array_equal(arrived.reshape(-1), np.arange(2 * replicas))


def test_program_can_wait_with_one_thread_for_ops(configure: Any) -> None:
    configure(4)
    one_thread = tf1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(400).map(lambda x: x + tf.reduce_sum(tf.ones([1000])) * 0))
        program = GraphProgram(queue, 50)
        with tf1.Session(config=one_thread) as session:
            session.run(queue.initializer)
            session.run(program.run)
            (arrived,) = session.run(program.dequeue)
    np.testing.assert_array_equal(arrived.reshape(-1), np.arange(200))


# Life of a queue.


def test_a_program_without_an_initialized_queue_fails(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(4))
        program = GraphProgram(queue, 1)
        deleter = queue.deleter
        with tf1.Session() as session:
            with pytest.raises(
                tf.errors.FailedPreconditionError,
                match="has not been created.*Did you initialize the infeed_queue",
            ):
                session.run(program.run)
            with pytest.raises(
                tf.errors.NotFoundError, match="Make sure that you have run the initializer"
            ):
                session.run(deleter)


def test_queue_of_another_device_counts_as_not_initialized(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(4), device_ordinal=1)
        program = GraphProgram(queue, 1)
        with tf1.Session() as session:
            session.run(queue.initializer)
            with pytest.raises(tf.errors.FailedPreconditionError, match="has not been created"):
                session.run(program.run)


def test_initializing_twice_is_an_error(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(4))
        initializer, deleter = queue.initializer, queue.deleter
        with tf1.Session() as session:
            session.run(initializer)
            with pytest.raises(tf.errors.AlreadyExistsError, match="already exists"):
                session.run(initializer)
            session.run(deleter)
            session.run(initializer)


def test_the_initializer_is_accessed_once() -> None:
    with tf.Graph().as_default():
        queue = IPUInfeedQueue(numbers(4))
        assert isinstance(queue.initializer, tf.Operation)
        with pytest.raises(ValueError, match="can only be accessed once"):
            queue.initializer  # noqa: B018


def test_different_replication_factors_on_one_queue_are_error() -> None:
    config = IPUConfig()
    config.auto_select_ipus = [1, 2]
    config.configure_ipu_system()
    try:
        with tf.Graph().as_default():
            queue = IPUInfeedQueue(numbers(40), device_ordinal=1)
            replicated = GraphProgram(queue, 1, ordinal=1)

            def sharded() -> tf.Tensor:
                with scopes.ipu_shard(0):
                    total = loops.repeat(1, lambda acc, x: acc + x, [0.0], queue)
                with scopes.ipu_shard(1):
                    return total + 1.0

            with scopes.ipu_scope("/device:IPU:1"):
                single = ipu_compiler.compile(sharded)
            with tf1.Session() as session:
                session.run(queue.initializer)
                session.run(replicated.run)
                with pytest.raises(
                    tf.errors.FailedPreconditionError, match="different replication factors"
                ):
                    session.run(single)
    finally:
        system.reset_ipu_configuration()


def test_a_queue_in_use_cannot_be_deleted(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default(), Gate() as gate:
        queue = IPUInfeedQueue(numbers(4).map(gate))
        program = GraphProgram(queue, 1)
        initializer, deleter = queue.initializer, queue.deleter
        with tf1.Session() as session:
            session.run(initializer)
            runner = threading.Thread(target=session.run, args=(program.run,))
            runner.start()
            gate.reached.wait()
            with pytest.raises(tf.errors.FailedPreconditionError, match="Cannot delete infeed"):
                session.run(deleter)
            gate.released.set()
            runner.join()
            session.run(deleter)


def test_resetting_the_configuration_drops_queues(configure: Any) -> None:
    configure(1)
    queue = IPUInfeedQueue(numbers(4))
    queue.initializer  # noqa: B018
    configure(2)
    with pytest.raises(tf.errors.NotFoundError):
        queue.deleter  # noqa: B018


# Construction.


def test_shapes_must_be_known() -> None:
    with pytest.raises(ValueError, match="is not fully defined") as caught:
        IPUInfeedQueue(numbers(10).batch(2))
    assert "drop_remainder=True" in str(caught.value)
    IPUInfeedQueue(numbers(10).batch(2, drop_remainder=True))


@pytest.mark.parametrize(
    ("depth", "phrase"),
    [
        (0, "must be greater than zero"),
        (-1, "must be greater than zero"),
        (256, "must be less than 256"),
    ],
)
def test_the_prefetch_depth_is_checked(depth: int, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        IPUInfeedQueue(numbers(4), prefetch_depth=depth)


@pytest.mark.parametrize(
    ("ordinal", "phrase"),
    [
        ("0", "Device ordinal must be an integer"),
        (1.0, "Device ordinal must be an integer"),
        (-1, "must be >= 0"),
    ],
)
def test_the_ordinal_is_checked(ordinal: Any, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        IPUInfeedQueue(numbers(4), device_ordinal=ordinal)


@pytest.mark.parametrize("dtype", [tf.float64, tf.complex64, tf.string, tf.int64, tf.uint32])
def test_unsupported_types_are_refused_by_the_initializer(dtype: tf.DType) -> None:
    name = {tf.float64: "double"}.get(dtype, dtype.name)
    match = f"Unsupported datatype {name} on index 1 of feed operation .*map.lambda x: tf.cast"
    elements = (tf.zeros([2]), tf.zeros([2], dtype))
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensors(elements))
    with pytest.raises(tf.errors.FailedPreconditionError, match=match):
        queue.initializer  # noqa: B018  (reading it initializes)
    with tf.Graph().as_default(), tf1.Session() as session:
        elements = (tf.zeros([2]), tf.zeros([2], dtype))
        initializer = IPUInfeedQueue(tf.data.Dataset.from_tensors(elements)).initializer
        with pytest.raises(tf.errors.FailedPreconditionError, match=match):
            session.run(initializer)


@pytest.mark.parametrize("dtype", [tf.float64, tf.string])
def test_queues_for_any_data_refuse_types_when_made(dtype: tf.DType) -> None:
    dataset = tf.data.Dataset.from_tensors(tf.zeros([2], dtype))
    match = f"Unsupported datatype {dtype.name} on index 0 of feed operation"
    with pytest.raises(tf.errors.FailedPreconditionError, match=match) as caught:
        DataInfeedQueue(dataset)
    assert "Cast it" in str(caught.value)


def test_empty_tensors_are_refused_by_the_initializer() -> None:
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.zeros([2, 0])))
    match = "Detected an input tensor to an infeed queue with a dimension of size 0"
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        queue.initializer  # noqa: B018  (reading it initializes)


def test_device_is_that_of_the_strategy_in_scope() -> None:
    config = IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    try:
        with ipu_strategy.IPUStrategy("/device:IPU:1").scope():
            infeed = IPUInfeedQueue(numbers(4))
            outfeed = IPUOutfeedQueue()
            assert feed_of(infeed).device_ordinal == 1
            assert ipu_outfeed_queue.feed_of(outfeed).device_ordinal == 1
            assert feed_of(IPUInfeedQueue(numbers(4), device_ordinal=None)).device_ordinal == 1
            assert feed_of(IPUInfeedQueue(numbers(4), device_ordinal=0)).device_ordinal == 0
        assert feed_of(IPUInfeedQueue(numbers(4))).device_ordinal == 0
    finally:
        system.reset_ipu_configuration()


@pytest.mark.parametrize("queue", [IPUInfeedQueue, ipu_outfeed_queue.IPUOutfeedQueue])
def test_default_ordinal_is_the_documented_zero(queue: Any) -> None:
    assert inspect.signature(queue).parameters["device_ordinal"].default == 0


def test_a_tuple_of_one_dict_gives_keyword_arguments(configure: Any) -> None:
    configure(1)
    structure = lambda x: ({"x0": x, "x1": -x},)  # noqa: E731
    arrived = run_graph(lambda: numbers(4).map(structure), 3)
    np.testing.assert_array_equal(arrived["x0"], [0, 1, 2])
    np.testing.assert_array_equal(arrived["x1"], [0, -1, -2])
    assert IPUInfeedQueue(numbers(4).map(structure)).number_of_tuple_elements == 2


def test_only_datasets_are_accepted() -> None:
    with pytest.raises(TypeError, match="tf.data.Dataset"):
        IPUInfeedQueue([1, 2, 3])  # type: ignore[arg-type]


def test_programs_read_queues_only() -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError, match="Expected an IPUInfeedQueue"):
        loops.repeat(2, lambda x: (), [], numbers(4))  # type: ignore[arg-type]


def test_properties_tell_elements_and_dequeueing() -> None:
    queue = IPUInfeedQueue(numbers(4).map(lambda x: (x, {"a": x, "b": x})))
    assert queue.number_of_tuple_elements == 3
    assert not queue.dequeued
    with pytest.raises(ValueError, match="obsolete"):
        queue.get_next()
    with tf.Graph().as_default():
        queue._dequeue()
    assert queue.dequeued


@pytest.mark.parametrize("name", ["feed_name", "replication_factor", "data_to_prefetch"])
def test_deprecated_arguments_are_ignored_with_a_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", logger="absl"):
        IPUInfeedQueue(numbers(4), **{name: 2 if name != "feed_name" else "x"})
    assert [name in record.getMessage() for record in caplog.records] == [True]


# Synthetic data.


def test_a_null_feed_leaves_the_dataset_alone(configure: Any, set_flags: Any) -> None:
    configure(1)
    set_flags("--null_data_feed")
    (arrived,) = run_graph(lambda: numbers(1), 5)
    assert arrived.shape == (5,)


def test_synthetic_data_takes_the_initial_value(configure: Any, set_flags: Any) -> None:
    configure(1)
    set_flags("--synthetic_data_categories=infeed --synthetic_data_initializer=3")
    (arrived,) = run_graph(lambda: numbers(1, tf.int32), 2)
    np.testing.assert_array_equal(arrived, [3, 3])


@pytest.mark.parametrize("initializer", ["uniform", "normal", "random"])
@pytest.mark.parametrize("dtype", [tf.float16, tf.int64, tf.uint8, tf.bool])
def test_synthetic_data_can_be_random(
    configure: Any, set_flags: Any, initializer: str, dtype: tf.DType
) -> None:
    configure(1)
    set_flags(f"--synthetic_data_categories=infeed --synthetic_data_initializer={initializer}")
    (arrived,) = run_graph(
        lambda: numbers(1, tf.int32).map(lambda x: tf.zeros([50], dtype)),
        2,
        queue_class=DataInfeedQueue,
    )
    assert arrived.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(arrived[0], arrived[1])
    if initializer == "normal" and dtype.is_integer:
        assert (arrived == 1).all()
    else:
        assert len(np.unique(arrived)) > 1


@pytest.mark.parametrize("replicas", [2, 4])
def test_elements_read_before_end_are_sent(configure: Any, replicas: int) -> None:
    configure(replicas)
    with ipu_strategy.IPUStrategy().scope():
        infeed = IPUInfeedQueue(numbers(3 * replicas))
        outfeed = IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def program() -> None:
            loops.repeat(8, outfeed.enqueue, [], infeed)

        # Which replica comes to the end first is a matter of luck.
        for _ in range(25):
            infeed.restart(numbers(3 * replicas))
            with pytest.raises(tf.errors.OutOfRangeError):
                current_scope.current().run(program)
            arrived = outfeed.dequeue().numpy()
            np.testing.assert_array_equal(arrived.reshape(-1), np.arange(3 * replicas))


def test_restart_wants_elements_of_the_same_form(configure: Any) -> None:
    configure(1)
    queue = IPUInfeedQueue(numbers(4))
    queue.restart(numbers(8))
    with pytest.raises(ValueError, match="elements of the same form"):
        queue.restart(numbers(4).batch(2, drop_remainder=True))


# Eager mode and iterators.


def test_a_queue_feeds_programs_in_eager_mode(configure: Any) -> None:
    configure(2)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        queue = IPUInfeedQueue(numbers(12))
        queue.initializer  # noqa: B018

        @tf.function(jit_compile=True)
        def total() -> tf.Tensor:
            return loops.repeat(3, lambda acc, x: acc + x, [0.0], queue)

        assert strategy.run(total).numpy() == 0 + 2 + 4  # replica 0
        assert strategy.run(total).numpy() == 6 + 8 + 10
        with pytest.raises(tf.errors.OutOfRangeError):
            strategy.run(total)
        queue.deleter  # noqa: B018


def test_an_iterator_is_captured_or_passed(configure: Any) -> None:
    configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        captured = make_owned_iterator(numbers(10))
        passed = make_owned_iterator(numbers(10).map(lambda x: (x, x * x)))

        @tf.function(jit_compile=True)
        def total(iterator: IPUIterator) -> tf.Tensor:
            acc = 0.0
            for _ in tf.range(3):
                acc += next(captured) + next(iterator)[1]
            return acc

        assert strategy.run(total, args=(passed,)).numpy() == (0 + 1 + 2) + (0 + 1 + 4)
        assert strategy.run(total, args=(passed,)).numpy() == (3 + 4 + 5) + (9 + 16 + 25)
        # Another iterator is another program.
        other = make_owned_iterator(numbers(10).map(lambda x: (x, -x)))
        assert strategy.run(total, args=(other,)).numpy() == (6 + 7 + 8) - (0 + 1 + 2)


def test_programs_read_an_iterator_of_the_host(configure: Any) -> None:
    configure(1)
    iterator = iter(numbers(6))
    assert next(iterator).numpy() == 0.0

    @tf.function(jit_compile=True)
    def pair(iterator: Any) -> tf.Tensor:
        return 10.0 * next(iterator) + next(iterator)

    strategy = ipu_strategy.IPUStrategy()
    assert [strategy.run(pair, args=(iterator,)).numpy() for _ in range(2)] == [12.0, 34.0]
    with pytest.raises(tf.errors.OutOfRangeError, match="more elements than the dataset has"):
        strategy.run(pair, kwargs={"iterator": iterator})


def test_iterating_a_dataset_in_scope_of_a_strategy(configure: Any) -> None:
    configure(1)
    with ipu_strategy.IPUStrategy().scope():
        assert isinstance(iter(numbers(4)), IPUOwnedIterator)
    with ipu_strategy.IPUStrategy(enable_dataset_iterators=False).scope():
        assert [float(x) for x in numbers(3)] == [0, 1, 2]
    assert [float(x) for x in numbers(3)] == [0, 1, 2]


def test_an_iterator_is_for_programs_only(configure: Any) -> None:
    configure(1)
    iterator = make_owned_iterator(numbers(4))
    with pytest.raises(RuntimeError, match="can not be accessed in eager mode") as caught:
        next(iterator)
    assert "enable_dataset_iterators=False" in str(caught.value)
    with pytest.raises(NotImplementedError):
        iterator.get_next_as_optional()
    with pytest.raises(NotImplementedError):
        tf.train.Checkpoint(it=iterator).write("/nowhere")


def test_a_python_loop_over_an_iterator_is_refused(configure: Any) -> None:
    configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        iterator = make_owned_iterator(numbers(4))

        @tf.function(jit_compile=True)
        def total() -> tf.Tensor:
            acc = 0.0
            for x in iterator:
                acc += x
            return acc

        with pytest.raises(NotImplementedError, match="get_next_as_optional"):
            strategy.run(total)


def test_an_iterator_needs_a_dataset_or_both_specs(configure: Any) -> None:
    configure(1)
    queue = IPUInfeedQueue(numbers(4))
    spec = tf.TensorSpec([], tf.float32)
    for arguments in (
        {},
        {"infeed_spec": queue},
        {"element_spec": spec},
        {"dataset": numbers(4), "element_spec": spec},
    ):
        with pytest.raises(ValueError, match="must"):
            IPUIterator(**arguments)
    assert IPUIterator(infeed_spec=queue, element_spec=spec).element_spec == spec
    assert IPUIterator(numbers(4), prefetch_depth=7)._queue._feed.prefetch_depth == 7


def _infeeds() -> int:
    gc.collect()
    return native.counts().infeeds


def test_a_queue_goes_with_its_owner(configure: Any) -> None:
    configure(1)
    before = _infeeds()
    queue = IPUInfeedQueue(numbers(4).repeat())
    queue.initializer  # noqa: B018
    assert _infeeds() == before + 1
    del queue
    assert _infeeds() == before


@pytest.mark.lifetimes
def test_queue_stays_while_a_program_can_read_it(configure: Any) -> None:
    configure(1)
    before = _infeeds()
    strategy = ipu_strategy.IPUStrategy()

    def make() -> Any:
        queue = IPUInfeedQueue(numbers(4).repeat())
        queue.initializer  # noqa: B018
        body = lambda total, x: total + tf.reduce_sum(x)  # noqa: E731

        @tf.function(jit_compile=True)
        def inner() -> tf.Tensor:
            return loops.repeat(2, body, [tf.zeros([], feed_of(queue).types[0])], queue)

        return tf.function(lambda: inner(), jit_compile=True)

    with strategy.scope():
        program = make()
        strategy.run(program)
        assert _infeeds() == before + 1
        strategy.run(program)
    del program
    assert _infeeds() == before


def test_queue_stays_while_a_graph_can_initialize_it(configure: Any) -> None:
    configure(1)
    before = _infeeds()

    def make() -> Any:
        queue = IPUInfeedQueue(numbers(4).repeat())
        body = lambda total, x: total + tf.reduce_sum(x)  # noqa: E731
        with scopes.ipu_scope("/device:IPU:0"):
            zero = tf.zeros([], feed_of(queue).types[0])
            result = ipu_compiler.compile(lambda: loops.repeat(2, body, [zero], queue))
        return queue.initializer, result

    with tf.Graph().as_default():
        initializer, result = make()
        gc.collect()
        with tf1.Session() as session:
            session.run(initializer)
            gc.collect()
            session.run(result)
            assert _infeeds() == before + 1
    assert _infeeds() == before


def test_an_owned_iterator_deletes_its_queue(configure: Any) -> None:
    configure(1)
    iterator = IPUOwnedIterator(numbers(4))
    queue = iterator._queue
    del iterator
    gc.collect()
    with pytest.raises(tf.errors.NotFoundError):
        queue.deleter  # noqa: B018
