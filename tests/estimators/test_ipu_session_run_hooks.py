"""Logging from inside programs, in estimators and in plain sessions."""

from __future__ import annotations

import logging
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.training import basic_session_run_hooks

from tests.support.models import estimator_models as models
from tests.support.models import pipelines

tf1 = tf.compat.v1
Hook = ipu.ipu_session_run_hooks.IPULoggingTensorHook
LAST, ALL = Hook.LoggingMode.LAST, Hook.LoggingMode.ALL


class Lines(logging.Handler):
    """Collects the messages of TensorFlow's logger with severity INFO."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.filename == "ipu_session_run_hooks.py":
            assert record.levelno == logging.INFO
            self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    logger = tf.get_logger()
    handler, level = Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still; set its first member."""
    now = [1000.0]
    monkeypatch.setattr(basic_session_run_hooks, "time", types.SimpleNamespace(time=lambda: now[0]))
    return now


def run(
    hook: Any,
    runs: int,
    make: Any = lambda step: {"x": step * 10.0},
    iterations: int = 2,
    replicas: int = 1,
    device: str = "/device:IPU:0",
    before_run: Any = lambda run: None,
    launch: Any = lambda run: True,
) -> None:
    """Runs a program that counts its iterations and logs the result of `make` for the count."""
    pipelines.configure([replicas, replicas] if device[-1] == "1" else replicas)
    with tf.Graph().as_default():

        def body(element: tf.Tensor) -> tf.Operation:
            return hook.log(make(element))

        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
            tf.data.Dataset.range(1000).map(lambda x: tf.cast(x, tf.float32)),
            device_ordinal=int(device[-1]),
        )
        with ipu.scopes.ipu_scope(device):
            program = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(iterations, body, infeed_queue=infeed)
            )
        nothing = tf.no_op()
        initializer = infeed.initializer
        scaffold = tf1.train.Scaffold(local_init_op=initializer)
        with tf1.train.SingularMonitoredSession([hook], scaffold) as session:
            for number in range(runs):
                before_run(number)
                session.run(program if launch(number) else nothing)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (1, ["x = 10.0", "x = 30.0", "x = 50.0", "x = 70.0", "x = 90.0"]),
        (2, ["x = 10.0", "x = 50.0", "x = 90.0"]),
        (3, ["x = 10.0", "x = 70.0"]),
        (9, ["x = 10.0"]),
    ],
)
def test_lines_are_logged_every_n_runs(lines: list[str], every: int, expected: list[str]) -> None:
    """The last iteration of a run is logged, and the interval counts runs."""
    run(Hook(every_n_iter=every), 5)
    assert lines == [line + (" (0.000 sec)" if i else "") for i, line in enumerate(expected)]


@pytest.mark.parametrize("seconds", [10, 10.0])
def test_lines_are_logged_every_n_seconds(
    lines: list[str], clock: list[float], seconds: float
) -> None:
    def tick(number: int) -> None:
        clock[0] = 1000.0 + 4.125 * number

    run(Hook(every_n_secs=seconds), 7, before_run=tick)
    assert lines == ["x = 10.0", "x = 70.0 (12.375 sec)", "x = 130.0 (12.375 sec)"]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("every", "mode", "expected"),
    [
        (None, LAST, ["x = 50.0"]),
        (None, ALL, ["x = [ 0. 10. 20. 30. 40. 50.]"]),
        (2, LAST, ["x = 10.0", "x = 50.0 (0.000 sec)", "x = 50.0 (0.000 sec)"]),
        (2, ALL, ["x = [ 0. 10.]", "x = [20. 30. 40. 50.] (0.000 sec)"]),
        (3, LAST, ["x = 10.0", "x = 50.0 (0.000 sec)"]),
        (3, ALL, ["x = [ 0. 10.]", "x = [20. 30. 40. 50.] (0.000 sec)"]),
    ],
)
def test_the_end_logs_what_the_mode_says(
    lines: list[str], every: Any, mode: Any, expected: list[str]
) -> None:
    """LAST logs the newest values once more; ALL logs the values not logged yet."""
    run(Hook(every_n_iter=every, at_end=True, logging_mode=mode), 3)
    assert lines == expected


def test_all_values_since_the_last_line_are_logged() -> None:
    seen: list[dict[str, Any]] = []
    hook = Hook(every_n_iter=2, logging_mode=ALL, formatter=lambda v: str(seen.append(v)))
    run(hook, 5)
    np.testing.assert_array_equal(seen[0]["x"], [0, 10])
    np.testing.assert_array_equal(seen[1]["x"], [20, 30, 40, 50])
    np.testing.assert_array_equal(seen[2]["x"], [60, 70, 80, 90])


def test_the_formatter_makes_the_whole_line(lines: list[str]) -> None:
    """Its text is all there is, percent signs too."""
    run(Hook(every_n_iter=1, formatter=lambda values: f"100%s {values['x']}"), 2)
    assert lines == ["100%s 10.0", "100%s 30.0"]


def test_values_are_named_by_key_or_tensor(lines: list[str]) -> None:
    """Keys of a dict in its order; else the names of the tensors."""

    def several(step: tf.Tensor) -> list[tf.Tensor]:
        return [tf.add(step, 1.0, name="later"), tf.identity(step, name="earlier")]

    run(Hook(at_end=True), 1, lambda step: {"z": step, "a": step * [1.0, 1e-5]})
    run(Hook(at_end=True), 1, several)
    run(Hook(at_end=True), 1, lambda step: tuple(several(step)))
    run(Hook(at_end=True), 1, lambda step: several(step)[0])
    run(Hook(at_end=True), 1, lambda step: {"number": 3})
    several_line = "later:0 = 2.0, earlier:0 = 1.0"
    assert lines == [
        "z = 1.0, a = [1.      0.00001]",
        several_line,
        several_line,
        "later:0 = 2.0",
        "number = 3",
    ]


@pytest.mark.parametrize(
    ("mode", "expected"), [(LAST, "x = [20. 30.]"), (ALL, "x = [[ 0. 10.]\n [20. 30.]]")]
)
def test_replicas_are_a_leading_dimension(lines: list[str], mode: Any, expected: str) -> None:
    run(Hook(at_end=True, logging_mode=mode), 1, replicas=2)
    assert lines == [expected]


def test_tensors_of_another_device_are_logged(lines: list[str]) -> None:
    run(Hook(every_n_iter=1), 1, device="/device:IPU:1")
    assert lines == ["x = 10.0"]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("mode", [LAST, ALL])
def test_runs_that_log_nothing(lines: list[str], mode: Any) -> None:
    """Such as those that only read a variable: the first line comes with the first values."""
    hook = Hook(every_n_iter=2, logging_mode=mode, formatter=lambda v: str(np.max(v["x"])))
    run(hook, 5, launch=lambda number: number in (1, 4))
    assert lines == ["10.0", "30.0"]


@pytest.mark.usefixtures("clock")
def test_an_estimator_runs_the_hook(lines: list[str]) -> None:
    """Mini-batches of 2 runs with 4 iterations each."""

    def model(features: Any, labels: Any, mode: str) -> Any:
        loss = models.squared_error(labels, models.prediction(features))
        hook = Hook(every_n_iter=1, formatter=lambda v: f"{v['loss'].shape} {v['step']}")
        step = tf1.train.get_global_step()
        log = hook.log({"loss": loss, "step": tf.cast(step, tf.int32)})
        train_op = tf.group(models.sgd().minimize(loss), log)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    models.estimator(models.run_config(4), model).train(models.repeated, steps=8)
    assert lines == ["() 0", "() 4"]


def test_a_pipelined_estimator_runs_the_hook(lines: list[str]) -> None:
    """The hook may be made outside of the model function, and log in the last stage."""
    hook = Hook(at_end=True, logging_mode=ALL, formatter=lambda v: str(list(v["sum"])))
    data = np.arange(8, dtype=np.float32)

    def model(mode: str) -> Any:
        def last(x: tf.Tensor) -> tf.Tensor:
            weight = tf1.get_variable("weight", initializer=1.0)
            with tf.control_dependencies([hook.log({"sum": tf.reduce_sum(x)})]):
                return tf.reduce_sum(x) * weight

        def optimizer_function(loss: tf.Tensor) -> Any:
            optimizer = tf1.train.GradientDescentOptimizer(0.0)
            return ipu.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

        return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
            mode, [tf.identity, last], 4, optimizer_function=optimizer_function
        )

    estimator = ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        model, config=models.run_config(4, shards=2)
    )
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(data), hooks=[hook], steps=8)
    assert lines == [str(list(data))]


def test_another_session_counts_from_the_start(lines: list[str]) -> None:
    """Starts to count again."""
    pipelines.configure(1)
    hook = Hook(every_n_iter=2)
    with tf.Graph().as_default():
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            program = ipu.ipu_compiler.compile(lambda: hook.log({"x": tf.constant(1)}))
        for _ in range(2):
            with tf1.train.SingularMonitoredSession(hooks=[hook]) as session:
                session.run(program)
    assert lines == ["x = 1", "x = 1"]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"every_n_iter": 1, "every_n_secs": 1},
        {"every_n_iter": 1, "every_n_secs": 1, "at_end": True},
        {"every_n_iter": 0},
        {"every_n_iter": -1, "at_end": True},
        {"every_n_secs": -1},
        {"every_n_iter": 1, "logging_mode": "all"},
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Received"):
        Hook(**arguments)


def test_deprecated_arguments_give_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    Hook(at_end=True, feed_name="feed", replication_factor=2)
    assert ["feed_name" in caplog.text, "replication_factor" in caplog.text] == [True, True]


def test_a_second_log_of_one_hook_is_refused() -> None:
    hook = Hook(at_end=True)
    with tf.Graph().as_default():
        hook.log(tf.constant(1))
        with pytest.raises(
            RuntimeError, match="Cannot use this hook object's log function more than once"
        ):
            hook.log(tf.constant(1))


def test_a_second_log_in_one_graph_is_refused() -> None:
    hook = Hook(at_end=True)
    for value in (1, 2):
        with tf.Graph().as_default():
            hook.log(tf.constant(value))
            with pytest.raises(RuntimeError, match="log function more than once"):
                hook.log(tf.constant(value))
            hook.begin()
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="has nothing to log"):
        hook.begin()


def test_a_hook_without_log_is_refused() -> None:
    with (
        tf.Graph().as_default(),
        pytest.raises(RuntimeError, match=r"Did you forget to call the log function\?"),
    ):
        tf1.train.SingularMonitoredSession(hooks=[Hook(at_end=True)])


@pytest.mark.parametrize(
    ("tensors", "error"),
    [
        (1, TypeError),
        ("x", TypeError),
        ([1.0], TypeError),
        ((None,), TypeError),
        (None, TypeError),
        ([], ValueError),
        ({}, ValueError),
    ],
)
def test_log_refuses_what_is_no_tensor(tensors: Any, error: type[Exception]) -> None:
    hook = Hook(at_end=True)
    with tf.Graph().as_default():
        with pytest.raises(error, match="[tT]ensor"):
            hook.log(tensors)
        hook.log(tf.constant(1))  # nothing was logged by the failed call
