"""Signals while the engine works, in this very process, and threads that its end finds launching.

A program sends the signal itself, from an op that it runs on the host: so it is running then, and
what it does after that takes much longer than any test may.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import compile as compile_lib
from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops
from tensorflow_ipu.runtime import interpreter, native, system
from tests.support.models import keras_models
from tests.support.programs import replicas

tf1 = tf.compat.v1
IPU = "/device:IPU:0"
# Takes minutes: a test fails, rather than hangs, if nothing stops it.
LONG = 10**8
X = np.ones(4, np.float32)


class Own(Exception):
    """The exception of a test's handler."""


@pytest.fixture(autouse=True)
def usable_afterwards() -> Iterator[None]:
    """Configures one IPU, and checks after the test that it is free and computes."""
    replicas.configure(1)
    yield
    assert native.counts().launches == 0
    double = tf.function(lambda x: 2 * x, jit_compile=True)
    np.testing.assert_array_equal(_run(double, X), 2 * X)
    system.reset_ipu_configuration()


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a handler of a signal for the time of the test."""
    before: dict[int, Any] = {}

    def install(number: int, function: Callable[[int, FrameType | None], Any]) -> None:
        before[number] = signal.signal(number, function)

    yield install
    for number, function in before.items():
        signal.signal(number, function)


def _run(function: Any, *arguments: Any) -> Any:
    strategy = current_scope.current() or ipu_strategy.IPUStrategy()
    with strategy.scope():
        return strategy.run(function, arguments)


def _send(number: int = signal.SIGINT) -> None:
    """Sends a signal to this process."""
    os.kill(os.getpid(), number)


def _after_signal(x: Any, number: int = signal.SIGINT) -> tf.Tensor:
    """Adds an op to a program that sends a signal; returns `x`, once it was sent."""

    def send(value: np.ndarray) -> np.ndarray:
        _send(number)
        return value

    with scopes.outside_compilation_scope():
        sent = tf.numpy_function(send, [x], tf.float32)
        sent.set_shape(X.shape)
    return sent


def _compute(x: tf.Tensor) -> tf.Tensor:
    return loops.repeat(LONG, lambda y: y * 1.0001, [_after_signal(x)])


def _sum(x: tf.Tensor) -> tf.Tensor:
    body = lambda y: cross_replica_ops.cross_replica_sum(y) * 0.25  # noqa: E731
    return loops.repeat(LONG, body, [_after_signal(x)])


class Waiting:
    """A dataset that sends a signal when its second element is asked for, and then waits."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.go_on: queue.Queue[None] = queue.Queue()
        self._number = number

    @property
    def dataset(self) -> tf.data.Dataset:
        """The dataset, for the graph in scope."""
        spec = tf.TensorSpec(X.shape, tf.float32)
        return tf.data.Dataset.from_generator(self._elements, output_signature=spec)

    def _elements(self) -> Iterator[np.ndarray]:
        yield X
        _send(self._number)
        self.go_on.get()
        yield X


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    made = Waiting()
    yield made
    made.go_on.put(None)


def _in_session(computation: Callable[[], Any], initializer: Any = None) -> Any:
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope(IPU):
            result = ipu_compiler.compile(computation)
        if initializer is not None:
            session.run(initializer())
        return session.run(result)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("where", ["eager", "function", "session"])
def test_ctrl_c_ends_a_program(count: int, where: str) -> None:
    replicas.configure(count)
    body = _compute if count == 1 else _sum
    program = tf.function(body, jit_compile=True)
    run: dict[str, Callable[[], Any]] = {
        "eager": lambda: _run(program, X),
        "function": lambda: tf.function(lambda: _run(program, X))(),
        "session": lambda: _in_session(lambda: body(tf.constant(X))),
    }
    with pytest.raises(KeyboardInterrupt) as caught:
        run[where]()
    # That the launch was cancelled is not what the user has to read.
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


INTERRUPTED = """
import sys
from tests.runtime import test_interpreter

count = int(sys.argv[1])
test_interpreter.replicas.configure(count)
body = test_interpreter._compute if count == 1 else test_interpreter._sum
program = test_interpreter.tf.function(body, jit_compile=True)
try:
    test_interpreter._run(program, test_interpreter.X)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("count", ["1", "2", "4"])
def test_ctrl_c_ends_program_of_a_fork(run_program: Any, count: str) -> None:
    """The main thread of a fork has another number than that of its parent."""
    assert run_program(INTERRUPTED, args=[count], timeout=60).stdout == "interrupted\n"


@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_ends_program_waiting_for_infeed(waiting: Waiting, count: int) -> None:
    replicas.configure(count)
    queue_ = IPUInfeedQueue(waiting.dataset)
    queue_.initializer  # noqa: B018

    @tf.function(jit_compile=True)
    def program() -> tf.Tensor:
        return loops.repeat(100, lambda total, x: total + x, [tf.zeros(4)], queue_)

    with pytest.raises(KeyboardInterrupt):
        _run(program)


def test_ctrl_c_ends_session_waiting_for_infeed(waiting: Waiting) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        queue_ = IPUInfeedQueue(waiting.dataset)
        with scopes.ipu_scope(IPU):
            body = lambda total, x: total + x  # noqa: E731
            result = ipu_compiler.compile(lambda: loops.repeat(100, body, [tf.zeros(4)], queue_))
        session.run(queue_.initializer)
        with pytest.raises(KeyboardInterrupt):
            session.run(result)
        waiting.go_on.put(None)  # closing a session waits for its datasets


@pytest.mark.parametrize("asynchronous", [False, True])
def test_ctrl_c_ends_a_training_of_keras(asynchronous: bool) -> None:
    def elements() -> Iterator[Any]:
        for number in range(LONG):
            if number == 50:
                _send()
            yield keras_models.X[:4], keras_models.Y[:4]

    spec = tuple(
        tf.TensorSpec(part[:4].shape, tf.float32) for part in (keras_models.X, keras_models.Y)
    )
    dataset = tf.data.Dataset.from_generator(elements, output_signature=spec)
    with ipu_strategy.IPUStrategy().scope():
        model = keras_models.MLP.compiled(steps_per_execution=LONG)
        model.set_asynchronous_callbacks(asynchronous)
        with pytest.raises(KeyboardInterrupt):
            model.fit(dataset, steps_per_epoch=LONG, verbose=0)
        model.compile("sgd", "mse", steps_per_execution=2)
        history = model.fit(keras_models.X, keras_models.Y, 4, verbose=0)
    assert np.isfinite(history.history["loss"][0])


def _launch_in_thread(program: Any, *arguments: Any) -> tuple[threading.Thread, list[Any]]:
    """Starts a program in another thread; it is stopped with `interpreter.stop_launches`."""
    failures: list[Any] = []

    def launch() -> None:
        try:
            _run(program, *arguments)
        except tf.errors.OpError as error:
            failures.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    return thread, failures


@pytest.mark.parametrize("what", ["dequeue", "another launch", "configuring"])
def test_ctrl_c_ends_waiting_for_other_thread(what: str) -> None:
    outfeed = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    runs = threading.Event()

    def say(value: np.ndarray) -> np.ndarray:
        runs.set()
        return value

    @tf.function(jit_compile=True)
    def program(x: tf.Tensor) -> tf.Tensor:
        with scopes.outside_compilation_scope():
            said = tf.numpy_function(say, [x], tf.float32)
            said.set_shape(X.shape)
        return loops.repeat(LONG, lambda y: (y * 1.0001, outfeed.enqueue(y)), [said])

    other = tf.function(lambda x: x + 1, jit_compile=True)
    _run(other, X)  # a signal while it is traced could come to a finalizer, and be lost
    wait: dict[str, Callable[[], Any]] = {
        "dequeue": outfeed.dequeue,
        "another launch": lambda: _run(other, X),
        "configuring": system.reset_ipu_configuration,
    }
    thread, failures = _launch_in_thread(program, X)
    runs.wait()
    # What waits does not say that it does. A signal that comes before is as good.
    timer = threading.Timer(0.2, _send)
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        wait[what]()
        timer.join()
    timer.join()
    assert native.counts().launches == 1  # the program goes on
    interpreter.stop_launches(thread)
    thread.join()
    assert [type(failure) for failure in failures] == [tf.errors.CancelledError]


def test_harmless_handler_runs_while_program_continues(
    handler: Callable[..., None],
) -> None:
    waiting = Waiting()
    handler(signal.SIGINT, lambda *_: waiting.go_on.put(None))
    queue_ = IPUInfeedQueue(waiting.dataset)
    queue_.initializer  # noqa: B018

    @tf.function(jit_compile=True)
    def program() -> tf.Tensor:
        return loops.repeat(2, lambda total, x: total + x, [tf.zeros(4)], queue_)

    # The second element comes when the handler has run.
    np.testing.assert_array_equal(_run(program), 2 * X)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGALRM])
def test_what_a_handler_raises_ends_the_program(handler: Callable[..., None], number: int) -> None:
    def fail(*_: Any) -> None:
        raise Own(number)

    handler(number, fail)
    program = tf.function(
        lambda x: loops.repeat(LONG, lambda y: y * 1.0001, [_after_signal(x, number)]),
        jit_compile=True,
    )
    with pytest.raises(Own) as caught:
        _run(program, X)
    assert caught.value.args == (number,)
    assert caught.traceback[-1].name == "fail"


def test_session_goes_on_for_a_handler_of_program(handler: Callable[..., None]) -> None:
    handled: list[int] = []
    handler(signal.SIGINT, lambda number, _: handled.append(number))
    (result,) = _in_session(
        lambda: loops.repeat(1000, lambda y: y + 1, [_after_signal(tf.constant(X))])
    )
    np.testing.assert_array_equal(result, X + 1000)
    assert handled == [signal.SIGINT]


def test_ctrl_c_while_a_program_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = compile_lib.TABLE["traced"]
    signalled = compile_lib.Pass("prune", lambda *_: _send())
    monkeypatch.setitem(compile_lib.TABLE, "traced", (signalled,))
    program = tf.function(lambda x: x + 1, jit_compile=True)
    with pytest.raises(KeyboardInterrupt):
        _run(program, X)
    monkeypatch.setitem(compile_lib.TABLE, "traced", traced)
    np.testing.assert_array_equal(_run(program, X), X + 1)


def test_python_handles_signal_without_running_program() -> None:
    with pytest.raises(KeyboardInterrupt):
        _in_session(lambda: _compute(tf.constant(X)))
    with pytest.raises(KeyboardInterrupt):
        _send()
        threading.Event().wait()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
