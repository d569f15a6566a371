"""Tests of outfeed queues, among them the programs printed in the reference, section 18.5."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.configs import flags
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.feeds.ipu_outfeed_queue import feed_of
from tensorflow_ipu.ipu_outfeed_queue import (
    IPUOutfeedMode,
    IPUOutfeedQueue,
    IPUOutfeedQueueIterator,
    ScopedIPUOutfeedQueue,
)
from tensorflow_ipu.runtime import native

tf1 = tf.compat.v1


class GraphProgram:
    """The loop of the reference's examples: enqueues `pick(input + 1)` 20 times."""

    def __init__(
        self,
        queue: IPUOutfeedQueue,
        pick: Callable[[tf.Tensor], Any],
        shape: tuple[int, ...] = (4, 4),
    ) -> None:
        def body(value: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
            output = value + 1
            return output, queue.enqueue(pick(output))

        with tf.device("cpu"):
            self.input = tf1.placeholder(np.float32, shape)
        with scopes.ipu_scope("/device:IPU:0"):
            (self.result,) = ipu_compiler.compile(
                lambda value: loops.repeat(20, body, (value)), inputs=[self.input]
            )
        self.shape = shape

    def run(self, session: tf1.Session) -> np.ndarray:
        """Runs the program on ones."""
        return session.run(self.result, {self.input: np.ones(self.shape, np.float32)})


def run_and_dequeue(mode: IPUOutfeedMode, pick: Callable[[tf.Tensor], Any]) -> Any:
    """Runs the program once and returns the enqueued values."""
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue(outfeed_mode=mode)
        program = GraphProgram(queue, pick)
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            program.run(session)
            return session.run(dequeue)


def expected(mode: IPUOutfeedMode, replicas: int) -> np.ndarray:
    """The values for `pick=identity`: 2, 3, ..., 21, each [4, 4], from each replica."""
    values = np.arange(2, 22, dtype=np.float32)
    if replicas > 1:
        values = np.repeat(values[:, None], replicas, axis=1)
    values = np.broadcast_to(values[..., None, None], (*values.shape, 4, 4))
    return values if mode is IPUOutfeedMode.ALL else values[-1]


# The reference's examples.


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
def test_a_single_tensor_is_stacked(configure: Any, mode: IPUOutfeedMode, replicas: int) -> None:
    configure(replicas)
    outfed = run_and_dequeue(mode, lambda output: output)
    np.testing.assert_array_equal(outfed, expected(mode, replicas))


@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
def test_a_tuple_of_tensors_stays_a_tuple(configure: Any, mode: IPUOutfeedMode) -> None:
    configure(1)
    outfed = run_and_dequeue(mode, lambda output: (output, tf.reduce_sum(output)))
    assert isinstance(outfed, tuple)
    values = expected(mode, 1)
    np.testing.assert_array_equal(outfed[0], values)
    np.testing.assert_array_equal(outfed[1], values.sum(axis=(-2, -1)))


@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
def test_a_dictionary_of_tensors_keeps_its_keys(configure: Any, mode: IPUOutfeedMode) -> None:
    configure(8)
    outfed = run_and_dequeue(mode, lambda output: {"y": tf.reduce_sum(output), "x": output})
    values = expected(mode, 8)
    np.testing.assert_array_equal(outfed["x"], values)
    np.testing.assert_array_equal(outfed["y"], values.sum(axis=(-2, -1)))


# What comes out, and when.


def test_nested_structures_are_kept(configure: Any) -> None:
    configure(1)
    outfed = run_and_dequeue(
        IPUOutfeedMode.LAST, lambda output: [{"a": (output[0, 0], [output[0]])}, -output[0, 0]]
    )
    assert outfed[0]["a"][0] == 21 and outfed[1] == -21
    np.testing.assert_array_equal(outfed[0]["a"][1][0], [21] * 4)


def test_values_of_several_runs_add_up_until_dequeued(configure: Any) -> None:
    configure(2)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        program = GraphProgram(queue, lambda output: output[0, 0])
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            assert session.run(dequeue).shape == (0,)
            program.run(session)
            program.run(session)
            outfed = session.run(dequeue)
            assert session.run(dequeue).shape == (0, 2)
            program.run(session)
            assert session.run(dequeue).shape == (20, 2)
    np.testing.assert_array_equal(outfed[:, 1], [*range(2, 22), *range(2, 22)])


def test_an_enqueue_outside_loops_gives_one_element(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(lambda: queue.enqueue(tf.constant([1, 2])))
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            session.run(run)
            np.testing.assert_array_equal(session.run(dequeue), [[1, 2]])


def test_last_value_is_there_once_for_each_run(configure: Any) -> None:
    configure(1)
    phrase = "Trying to get the last value from an outfeed queue before it was executed"
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
        program = GraphProgram(queue, lambda output: output[0, 0])
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            for _ in range(2):
                with pytest.raises(tf.errors.FailedPreconditionError, match=phrase):
                    session.run(dequeue)
                program.run(session)
                assert session.run(dequeue) == 21


def test_several_outfeeds_work_in_one_program(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        every, last = IPUOutfeedQueue(), IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)

        def body(x: tf.Tensor) -> Any:
            return x + 1, every.enqueue(x), last.enqueue(-x)

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(lambda: loops.repeat(3, body, [0]))
        dequeue = every.dequeue(), last.dequeue()
        with tf1.Session() as session:
            session.run(run)
            all_values, last_value = session.run(dequeue)
    np.testing.assert_array_equal(all_values, [0, 1, 2])
    assert last_value == -2


def test_long_integers_come_back_sign_extended(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(
                lambda x: queue.enqueue(tf.cast(x, tf.int64) * 2), [tf.constant([1, 2**30])]
            )
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            session.run(run)
            np.testing.assert_array_equal(session.run(dequeue), [[2, -(2**31)]])


def test_enqueued_variables_keep_the_value_they_had(configure: Any) -> None:
    configure(2)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()

        def body() -> Any:
            v = tf1.get_variable("v", [3], initializer=tf1.zeros_initializer(), use_resource=True)
            enqueue = queue.enqueue(v.read_value())
            with tf.control_dependencies([enqueue]):
                return v.assign_add(tf.ones([3]), read_value=False)

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(lambda: loops.repeat(4, body, []))
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(run)
            outfed = session.run(dequeue)
    np.testing.assert_array_equal(outfed[:, 0, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(outfed[:, 1, 2], [0, 1, 2, 3])


def test_dequeued_tensors_have_static_shapes(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        every, last = IPUOutfeedQueue(), IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
        GraphProgram(every, lambda output: output)
        GraphProgram(last, lambda output: output)
        assert every.dequeue().shape.as_list() == [None, 4, 4]
        assert last.dequeue().shape.as_list() == [4, 4]
        assert every.dequeue().device == "/device:CPU:0"
    configure(2)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        GraphProgram(queue, lambda output: output)
        assert queue.dequeue().shape.rank is None


# While a program runs.


def test_dequeuing_from_another_thread_while_the_program_runs(configure: Any) -> None:
    configure(2)
    count = 500
    queue = IPUOutfeedQueue()
    strategy = ipu_strategy.IPUStrategy()
    collected: list[np.ndarray] = []
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program() -> Any:
            return loops.repeat(
                count, lambda i: (i + 1, queue.enqueue((i, tf.fill([3], i)))), [tf.constant(0)]
            )

        def poll() -> None:
            while sum(len(values) for values in collected) < count:
                batch = queue.dequeue()
                if batch != []:
                    assert batch[0].shape[:1] == batch[1].shape[:1]
                    collected.append(batch[1].numpy().reshape(-1, 2, 3))

        poller = threading.Thread(target=poll)
        poller.start()
        strategy.run(program)
        poller.join()
    np.testing.assert_array_equal(
        np.concatenate(collected), np.broadcast_to(np.arange(count)[:, None, None], (count, 2, 3))
    )


@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
def test_dequeueing_waits_for_completion(configure: Any, mode: IPUOutfeedMode) -> None:
    configure(1)
    started, release = threading.Event(), threading.Event()

    def hold() -> np.float32:
        started.set()
        release.wait()
        return np.float32(1)

    with tf.Graph().as_default():
        queue = IPUOutfeedQueue(outfeed_mode=mode)

        def net() -> tf.Operation:
            with scopes.outside_compilation_scope():
                one = tf.ensure_shape(tf.numpy_function(hold, [], tf.float32), [])
            return queue.enqueue(one)

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(net)
        dequeue = queue.dequeue(wait_for_completion=mode is IPUOutfeedMode.ALL)
        now = queue.dequeue() if mode is IPUOutfeedMode.ALL else None
        with tf1.Session() as session:
            runner = threading.Thread(target=session.run, args=(run,))
            runner.start()
            started.wait()
            results: list[np.ndarray] = []
            waiter = threading.Thread(target=lambda: results.append(session.run(dequeue)))
            try:
                if now is not None:
                    assert session.run(now).shape == (0,)
                with pytest.raises(tf.errors.DeadlineExceededError):
                    session.run(dequeue, options=tf1.RunOptions(timeout_in_ms=100))
                waiter.start()
            finally:
                release.set()
            waiter.join()
            runner.join()
    np.testing.assert_array_equal(np.reshape(results[0], [-1]), [1])


# Misuse.


def test_a_second_enqueue_is_an_error() -> None:
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        GraphProgram(queue, lambda output: output)
        with pytest.raises(ValueError, match="An outfeed can only be enqueued once"):
            GraphProgram(queue, lambda output: output)


def test_a_retraced_function_enqueues_again(configure: Any) -> None:
    configure(1)
    queue = IPUOutfeedQueue()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(x: tf.Tensor, factor: int) -> tf.Tensor:
            queue.enqueue(x * factor)
            return x

        strategy.run(program, args=(tf.constant(1), 2))
        strategy.run(program, args=(tf.constant(1), 3))
        np.testing.assert_array_equal(queue.dequeue(), [2, 3])

        @tf.function(jit_compile=True)
        def twice(x: tf.Tensor) -> tf.Tensor:
            queue.enqueue(x)
            queue.enqueue(x)
            return x

        with pytest.raises(ValueError, match="An outfeed can only be enqueued once"):
            strategy.run(twice, args=(tf.constant(1),))


def test_dequeue_before_enqueue_is_an_error() -> None:
    queue = IPUOutfeedQueue()
    phrase = "Trying to dequeue an outfeed which has not been enqueued."
    with pytest.raises(ValueError, match=phrase):
        queue.dequeue()
    with tf.Graph().as_default(), pytest.raises(ValueError, match=phrase):
        queue.dequeue()
    polled: list[Any] = []
    poller = threading.Thread(target=lambda: polled.append(queue.dequeue()))
    poller.start()
    poller.join()
    assert polled == [[]]


def test_another_shape_on_one_queue_is_an_error(configure: Any) -> None:
    configure(1)
    queue = IPUOutfeedQueue()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(x: tf.Tensor) -> tf.Tensor:
            queue.enqueue(x)
            return x

        strategy.run(program, args=(tf.zeros([2]),))
        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match="different tensor shape or replication factor",
        ):
            strategy.run(program, args=(tf.zeros([3]),))
        queue.deleter  # noqa: B018
        strategy.run(program, args=(tf.zeros([3]),))
        assert queue.dequeue().shape == (1, 3)


def test_queue_of_another_device_counts_as_never_executed(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue(device_ordinal=1)
        program = GraphProgram(queue, lambda output: output)
        dequeue = queue.dequeue()
        with tf1.Session() as session:
            program.run(session)
            assert session.run(dequeue).shape == (0, 4, 4)


def test_the_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match=r"IPUOutfeedMode\.ALL or IPUOutfeedMode\.LAST"):
        IPUOutfeedQueue(outfeed_mode="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Outfeed buffer depth cannot be less than 1"):
        IPUOutfeedQueue(buffer_depth=0)
    with pytest.raises(ValueError, match="Device ordinal must be an integer"):
        IPUOutfeedQueue(device_ordinal="1")  # type: ignore[arg-type]
    with tf.Graph().as_default(), pytest.raises(ValueError, match="no tensors to enqueue"):
        IPUOutfeedQueue().enqueue(())
    with (
        tf.Graph().as_default(),
        pytest.raises(tf.errors.FailedPreconditionError, match="Unsupported datatype"),
    ):
        IPUOutfeedQueue().enqueue(tf.zeros([2], tf.float64))


def test_only_outfeeds_are_iterated_over() -> None:
    with pytest.raises(TypeError, match="Expected an IPUOutfeedQueue"):
        IPUOutfeedQueueIterator([1, 2])  # type: ignore[arg-type]


def test_a_mode_is_accepted_as_first_argument() -> None:
    assert feed_of(IPUOutfeedQueue(IPUOutfeedMode.LAST)).mode is IPUOutfeedMode.LAST  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"), [("feed_name", "x"), ("replication_factor", 2), ("io_batch_size", 2)]
)
def test_deprecated_arguments_are_ignored_with_a_warning(
    name: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", logger="absl"):
        IPUOutfeedQueue(**{name: value})
    assert [name in record.getMessage() for record in caplog.records] == [True]


# Life of a queue.


def test_a_deleted_queue_has_no_elements(configure: Any) -> None:
    configure(1)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        program = GraphProgram(queue, lambda output: output[0, 0])
        dequeue, deleter = queue.dequeue(), queue.deleter
        with tf1.Session() as session:
            session.run(deleter)  # never ran
            program.run(session)
            session.run(deleter)
            assert session.run(dequeue).shape == (0,)


def test_iterating_yields_each_element_once(configure: Any) -> None:
    configure(2)
    queue = IPUOutfeedQueue()
    strategy = ipu_strategy.IPUStrategy()
    assert list(queue) == []
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program() -> Any:
            return loops.repeat(3, lambda i: (i + 1, queue.enqueue({"i": i})), [tf.constant(0)])

        strategy.run(program)
        strategy.run(program)
    items = [item["i"].numpy().tolist() for item in queue]
    assert items == [[i, i] for i in (0, 1, 2, 0, 1, 2)]
    assert list(queue) == []
    with pytest.raises(RuntimeError, match=r"IPUOutfeedMode\.ALL"):
        iter(IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST))
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="eager mode"):
        iter(queue)


@pytest.mark.lifetimes
def test_queue_goes_with_last_that_can_use_it(configure: Any) -> None:
    configure(1)
    gc.collect()
    before = native.counts().outfeeds
    strategy = ipu_strategy.IPUStrategy()
    queue = IPUOutfeedQueue()

    def make(filled: IPUOutfeedQueue) -> Any:
        @tf.function(jit_compile=True)
        def program() -> None:
            filled.enqueue(tf.constant(1))

        return program

    program = make(queue)
    with strategy.scope():
        strategy.run(program)
    del program
    gc.collect()
    np.testing.assert_array_equal(queue.dequeue(), [1])  # what was sent can still be taken
    assert native.counts().outfeeds == before + 1
    del queue
    gc.collect()
    assert native.counts().outfeeds == before


def test_a_scoped_queue_deletes_itself(configure: Any) -> None:
    configure(1)
    strategy = ipu_strategy.IPUStrategy()
    # Another owner of the same native queue, to see what is in it.
    observer = IPUOutfeedQueue()

    def use_queue() -> None:
        queue = ScopedIPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def program() -> tf.Tensor:
            queue.enqueue(tf.constant(1))
            return tf.constant(2)

        strategy.run(program)
        strategy.run(program)
        observer._feed = feed_of(queue)
        np.testing.assert_array_equal(queue.dequeue(), [1, 1])
        strategy.run(program)

    with strategy.scope():
        use_queue()
    gc.collect()
    assert observer.dequeue().shape == (0,)


def test_enqueued_is_about_the_graph_in_scope(configure: Any) -> None:
    configure(1)
    queue = IPUOutfeedQueue()
    for _ in range(2):  # the second graph can enqueue again
        with tf.Graph().as_default() as graph:
            assert not queue.enqueued
            program = GraphProgram(queue, lambda x: x)
            assert queue.enqueued
            dequeue = queue.dequeue()
            with tf1.Session() as session:
                program.run(session)
                assert session.run(dequeue).shape == (20, 4, 4)
    assert not queue.enqueued
    with graph.as_default():
        assert queue.enqueued


def test_another_thread_sees_what_was_enqueued(configure: Any) -> None:
    configure(1)
    queue = IPUOutfeedQueue()
    seen = []

    def look() -> None:
        seen.append(queue.enqueued)

    def in_thread() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    in_thread()
    with tf.Graph().as_default():
        GraphProgram(queue, lambda x: x)
        in_thread()
    assert seen == [False, True]


@pytest.mark.parametrize("in_strategy", [False, True])
def test_an_empty_tensor_is_refused(configure: Any, in_strategy: bool) -> None:
    configure(1)
    match = "Detected an input tensor to an outfeed queue with a dimension of size 0"
    if in_strategy:
        strategy = ipu_strategy.IPUStrategy()
        queue = IPUOutfeedQueue()
        with strategy.scope():

            @tf.function(jit_compile=True)
            def program() -> None:
                queue.enqueue(tf.zeros([2, 0]))

            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                strategy.run(program)
        return
    with tf.Graph().as_default():
        program = GraphProgram(IPUOutfeedQueue(), lambda x: x[:0])
        with tf1.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=match):
            program.run(session)


def test_iterator_of_queue_ends_when_it_is_empty(configure: Any) -> None:
    configure(1)
    strategy = ipu_strategy.IPUStrategy()
    queue = IPUOutfeedQueue()
    iterator = IPUOutfeedQueueIterator(queue)
    with pytest.raises(StopIteration):
        next(iterator)
    with strategy.scope():
        program = tf.function(
            lambda: loops.repeat(3, lambda x: (x + 1, queue.enqueue({"x": x})), [1.0]),
            jit_compile=True,
        )
        for _ in range(2):
            strategy.run(program)
            assert [element["x"].numpy() for element in iterator] == [1, 2, 3]
    assert isinstance(iter(queue), IPUOutfeedQueueIterator)
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="eager mode"):
        IPUOutfeedQueueIterator(queue)


def test_a_scoped_queue_is_for_eager_mode() -> None:
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="eager mode"):
        ScopedIPUOutfeedQueue()


# Synthetic data.


def test_synthetic_data_leave_the_queue_empty(
    configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(1)
    monkeypatch.setenv(flags.VARIABLE, "--synthetic_data_categories=outfeed")
    flags._reset_for_tests()
    try:
        outfed = run_and_dequeue(IPUOutfeedMode.ALL, lambda output: {"x": output})
        assert outfed["x"].shape == (0, 4, 4)
        with pytest.raises(tf.errors.FailedPreconditionError, match="synthethic data"):
            run_and_dequeue(IPUOutfeedMode.LAST, lambda output: output)
    finally:
        monkeypatch.undo()
        flags._reset_for_tests()
