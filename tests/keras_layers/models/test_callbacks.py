"""Callbacks: Keras's own and the user's, in step with executions and while the device runs."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import keras_models
from tests.support.models.keras_models import (
    BATCH,
    KINDS,
    MLP,
    Kind,
    Recorder,
    X,
    Y,
    assert_close,
    assert_same_weights,
    dataset,
    train,
    train_both,
)

pytestmark = keras_models.KERAS_WARNINGS

_callbacks = tf.keras.callbacks
_FUNCTIONAL = KINDS["functional"]
_EXECUTIONS_OF_2 = {"steps_per_execution": 2}


class _At(tf.keras.callbacks.Callback):
    """Calls a function with the model after the batch of some number."""

    def __init__(self, batch: int, function: Callable[[tf.keras.Model], Any]) -> None:
        super().__init__()
        self._batch = batch
        self._function = function

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self._batch:
            self._function(self.model)


def _fail(*_: Any) -> None:
    raise KeyError("from the user")


def test_early_stopping_ends_fit_as_in_stock_keras() -> None:
    found, _ = train_both(
        _FUNCTIONAL,
        optimizer=lambda: tf.keras.optimizers.SGD(-0.01),
        callbacks=lambda: [_callbacks.EarlyStopping("loss", patience=2, restore_best_weights=True)],
        epochs=9,
    )
    assert len(found.history["loss"]) == 3


def test_learning_rates_that_callbacks_set_are_used() -> None:
    found, _ = train_both(
        _FUNCTIONAL,
        callbacks=lambda: [
            _callbacks.LearningRateScheduler(
                lambda epoch, rate: rate * 0.5 if epoch == 1 else rate
            ),
            _callbacks.ReduceLROnPlateau("loss", mode="max", factor=0.1, patience=2),
        ],
        epochs=5,
    )
    rates = found.history["lr"]
    assert rates == pytest.approx([0.1, 0.05, 0.05, 0.005, 0.005])


@pytest.mark.parametrize(
    "optimizer",
    [lambda: tf.keras.optimizers.Adam(0.1), lambda: tf.keras.optimizers.legacy.Adam(0.1)],
    ids=["new", "legacy"],
)
def test_learning_rate_set_between_executions_needs_no_compilation(
    optimizer: Callable[[], Any],
) -> None:
    def smaller(model: tf.keras.Model) -> None:
        model.optimizer.learning_rate = 0.01

    train_both(
        _FUNCTIONAL,
        optimizer=optimizer,
        callbacks=lambda: [_At(1, smaller)],
        compile_with=_EXECUTIONS_OF_2,
    )
    assert keras_models.compilations() == 1


def test_weights_set_between_executions_are_used() -> None:
    def other(model: tf.keras.Model) -> None:
        model.set_weights([0.5 * weight for weight in model.get_weights()])

    train_both(_FUNCTIONAL, callbacks=lambda: [_At(3, other)], compile_with=_EXECUTIONS_OF_2)


def test_stop_training_takes_effect_after_the_execution() -> None:
    def stop(model: tf.keras.Model) -> None:
        model.stop_training = True

    found, _ = train_both(
        _FUNCTIONAL,
        callbacks=lambda: [_At(3, stop)],
        compile_with=_EXECUTIONS_OF_2,
        epochs=3,
    )
    assert found.calls[-1][0] == "on_train_end"
    assert [call[1] for call in found.calls if call[0] == "on_train_batch_end"] == [1, 3]


def test_terminate_on_nan_ends_fit() -> None:
    x = X.copy()
    x[9] = np.nan
    found, _ = train_both(
        Kind(_FUNCTIONAL.build, x), callbacks=lambda: [_callbacks.TerminateOnNaN()], epochs=3
    )
    ends = [call[1] for call in found.calls if call[0] == "on_train_batch_end"]
    assert ends == [0, 1, 2]


def test_lambdas_get_what_stock_keras_gives_them() -> None:
    seen: list[Any] = []

    def callbacks() -> list[Any]:
        seen.append([])
        append = seen[-1].append
        return [
            _callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: append((epoch, sorted(logs))),
                on_batch_end=lambda batch, logs: append((batch, sorted(logs))),
                on_train_end=lambda logs: append(sorted(logs)),
            )
        ]

    train_both(_FUNCTIONAL, callbacks=callbacks, validation_data=(X, Y))
    assert seen[0] == seen[1]


def test_callbacks_write_the_files_of_stock_keras(tmp_path: Path) -> None:
    folders = [tmp_path / "stock", tmp_path / "ipu"]
    remaining = list(folders)

    def callbacks() -> list[Any]:
        folder = remaining.pop(0)
        return [
            _callbacks.CSVLogger(str(folder / "log.csv")),
            _callbacks.ModelCheckpoint(
                str(folder / "{epoch}.weights.h5"), save_weights_only=True, save_freq=4
            ),
            _callbacks.TensorBoard(
                str(folder / "events"), histogram_freq=1, update_freq=2, write_graph=False
            ),
        ]

    for folder in folders:
        folder.mkdir()
    found, _ = train_both(
        _FUNCTIONAL, callbacks=callbacks, compile_with=_EXECUTIONS_OF_2, validation_data=(X, Y)
    )
    logs = [list(csv.reader((folder / "log.csv").read_text().splitlines())) for folder in folders]
    assert logs[0][0] == logs[1][0]
    assert_close(
        [[float(value) for value in row] for row in logs[1][1:]],
        [[float(value) for value in row] for row in logs[0][1:]],
    )
    events = [_scalars(folder / "events") for folder in folders]
    # The order of events with graphs is not that of eager steps.
    assert {tag for tag, _ in events[1]} >= {"epoch_loss", "evaluation_loss_vs_iterations"}
    assert sorted(events[1]) == sorted(events[0])
    # Weights that Keras saved after the last execution but one of the last epoch.
    loaded = _FUNCTIONAL.compiled()
    saved = [sorted(path.name for path in folder.glob("*.h5")) for folder in folders]
    assert saved[0] == saved[1] != []
    loaded.optimizer.build(loaded.trainable_variables)
    loaded.load_weights(folders[1] / saved[1][-1])
    assert_close(loaded.get_weights(), found.model.get_weights())


def _scalars(folder: Path) -> list[tuple[str, int]]:
    """Returns tag and step of all scalars in the event files of a folder."""
    found = []
    for path in folder.rglob("events.out.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            found += [
                (value.tag, event.step)
                for value in event.summary.value
                if value.metadata.plugin_data.plugin_name == "scalars"
            ]
    return found


@pytest.mark.parametrize("frequency", ["epoch", 1])
def test_backup_and_restore_repeats_the_failed_epoch(tmp_path: Path, frequency: Any) -> None:
    """Training that failed in the second epoch goes on with that epoch."""

    def fit(model: tf.keras.Model, *others: Any) -> None:
        backup = _callbacks.BackupAndRestore(str(tmp_path), save_freq=frequency)
        model.fit(X, Y, BATCH, epochs=3, verbose=0, shuffle=False, callbacks=[backup, *others])

    recorder = Recorder()
    fail = _callbacks.LambdaCallback(on_epoch_begin=lambda epoch, _: _fail() if epoch else None)
    with keras_models.strategy().scope():
        with pytest.raises(KeyError, match="from the user"):
            fit(_FUNCTIONAL.compiled(**_EXECUTIONS_OF_2), fail)
        model = _FUNCTIONAL.compiled(**_EXECUTIONS_OF_2)
        fit(model, recorder)
    assert [epoch for _, epoch in recorder.names("on_epoch_begin")] == [1, 2]
    assert [step for _, step in recorder.names("on_train_batch_end")] == [1, 3, 5, 1, 3, 5]
    assert_same_weights(
        model, train(_FUNCTIONAL, compile_with={"run_eagerly": True}, epochs=3).model
    )


def test_model_can_be_evaluated_and_saved_in_callback(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(model: tf.keras.Model) -> None:
        seen.append(model.evaluate(X, Y, BATCH, verbose=0))
        seen.append(model.predict(X, BATCH, verbose=0))
        model.save_weights(str(tmp_path / "weights"))

    train_both(_FUNCTIONAL, callbacks=lambda: [_At(2, look)])
    assert_close(seen[4:], seen[:4])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_exception_in_a_callback_ends_fit_cleanly(asynchronous: bool) -> None:
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled(**_EXECUTIONS_OF_2)
        model.set_asynchronous_callbacks(asynchronous)
        with pytest.raises(KeyError, match="from the user"):
            model.fit(X, Y, BATCH, verbose=0, shuffle=False, callbacks=[_At(3, _fail)])
        assert not [t for t in threading.enumerate() if t.name == "ipu-execution"]
        # Two executions ran; the model goes on from there, with nothing left over.
        recorder = Recorder()
        model.fit(X, Y, BATCH, verbose=0, shuffle=False, callbacks=[recorder])
    expected = _FUNCTIONAL.compiled(run_eagerly=True)
    expected.fit(X[:16], Y[:16], BATCH, verbose=0, shuffle=False)
    theirs = Recorder()
    expected.fit(X, Y, BATCH, verbose=0, shuffle=False, callbacks=[theirs])
    assert_same_weights(model, expected)
    logs = recorder.logs("on_train_batch_end")
    wanted = theirs.logs("on_train_batch_end")
    assert_close(logs, wanted if asynchronous else wanted[1::2])


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_bad_data_end_a_method_cleanly(method: str, asynchronous: bool) -> None:
    def checked(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(tf.reduce_max(x), 1e3)]):
            return tf.identity(x), y

    bad = X.copy()
    bad[17] = 1e4
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled(steps_per_execution=3)
        model.set_asynchronous_callbacks(asynchronous)
        with pytest.raises(tf.errors.InvalidArgumentError):
            getattr(model, method)(dataset(bad).map(checked), verbose=0)
        recorder = Recorder()
        weights = model.get_weights()
        found = getattr(model, method)(dataset().map(checked), verbose=0, callbacks=[recorder])
    stock = _FUNCTIONAL.compiled(run_eagerly=True)
    stock.set_weights(weights)
    if method == "fit":
        # What the device did before it met the bad data is kept.
        assert len(found.history["loss"]) == 1
    else:
        assert_close(found, getattr(stock, method)(dataset(), verbose=0))
    name = {"fit": "train", "evaluate": "test"}.get(method, method)
    ends = recorder.names(f"on_{name}_batch_end")
    assert [step for _, step in ends] == (list(range(6)) if asynchronous else [2, 5])


@pytest.mark.parametrize("replicas", [1, 2])
def test_asynchronous_callbacks_see_every_step_of_every_replica(replicas: int) -> None:
    with keras_models.strategy(replicas).scope():
        model = _FUNCTIONAL.compiled("sgd", steps_per_execution=3)
        model.set_asynchronous_callbacks(True)
        recorder = Recorder()
        model.fit(X, Y, BATCH, epochs=2, verbose=0, shuffle=False, callbacks=[recorder])
        model.evaluate(X, Y, BATCH, verbose=0, callbacks=[recorder])
        model.set_asynchronous_callbacks(False)
        outputs = model.predict(X, BATCH, verbose=0)
        model.set_asynchronous_callbacks(True)
        assert_close(model.predict(X, BATCH, verbose=0, callbacks=[recorder]), outputs, 1e-7)
    steps = [step for step in range(6 // replicas) for _ in range(replicas)]
    for mode, epochs in (("train", 2), ("test", 1), ("predict", 1)):
        for position in ("begin", "end"):
            calls = recorder.names(f"on_{mode}_batch_{position}")
            assert [step for _, step in calls] == steps * epochs
    for logs in recorder.logs("on_train_batch_end"):
        assert {type(value) for value in logs.values()} == {float}
    batches = [logs["outputs"] for logs in recorder.logs("on_predict_batch_end")]
    assert_close(np.concatenate(batches), outputs, 1e-7)
    if replicas == 1:
        expected = Recorder()
        stock = _FUNCTIONAL.compiled("sgd", run_eagerly=True)
        stock.fit(X, Y, BATCH, epochs=2, verbose=0, shuffle=False, callbacks=[expected])
        for hook in ("on_train_batch_end", "on_epoch_end"):
            assert_close(recorder.logs(hook), expected.logs(hook))


def test_asynchronous_callbacks_are_called_while_the_device_runs() -> None:
    """The dataset goes on only when the callback for the first batch has been called."""
    called = threading.Event()

    def wait(x: np.ndarray) -> np.ndarray:
        if not called.wait(60):
            raise TimeoutError("no callback was called")
        return x

    def later(index: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.cond(
            index < 3,
            lambda: x,
            lambda: tf.ensure_shape(tf.numpy_function(wait, [x], x.dtype), x.shape),
        )

    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled(steps_per_execution=6)
        model.set_asynchronous_callbacks(True)
        x = dataset().map(lambda x, y: x)
        made = tf.data.Dataset.zip((x.enumerate().map(later), dataset().map(lambda x, y: y)))
        model.set_infeed_queue_options(prefetch_depth=1)
        model.fit(
            made,
            verbose=0,
            callbacks=[_callbacks.LambdaCallback(on_batch_end=lambda *_, **__: called.set())],
        )
    assert called.is_set()


def test_user_callbacks_may_be_keras_list() -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled()
        recorder = Recorder()
        made = _callbacks.CallbackList([recorder], add_history=True, model=model, epochs=1, steps=6)
        history = model.fit(X, Y, BATCH, verbose=0, callbacks=made)
    assert len(recorder.names("on_train_batch_end")) == 6
    assert list(history.history) == ["loss", "mae"]


def test_tensorboard_gets_the_graph_of_the_training_program(tmp_path: Path) -> None:
    kind = KINDS["nested"]
    with keras_models.strategy().scope():
        model = kind.compiled(steps_per_execution=3)
        # Keras calls it for batches, where it writes the graph, if it has to write something else.
        board = _callbacks.TensorBoard(str(tmp_path), write_graph=True, write_steps_per_second=True)
        model.fit(kind.x, kind.y, BATCH, epochs=2, verbose=0, callbacks=[board])
        names = [layer.name for layer in model._flatten_layers(include_self=False)]
    (path,) = (tmp_path / "train").glob("events*")
    events = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    parsed = [tf.compat.v1.Event.FromString(event) for event in events]
    (graph,) = (tf.compat.v1.GraphDef.FromString(e.graph_def) for e in parsed if e.graph_def)
    functions = graph.library.function
    ops = [node.name for node in (*graph.node, *(n for f in functions for n in f.node_def))]
    # Layers of inputs have no ops in a program.
    called = [name for name in names if "input" not in name]
    assert [name for name in called if not any(f"/{name}" in op for op in ops)] == []
