"""Keras models of every kind, trained by stock Keras and on the IPU in one process."""

from __future__ import annotations

import collections
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import observers
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.runtime import system
from tests.support.programs import replicas as replica_helpers

SAMPLES = 24
BATCH = 4
TOLERANCE = 1e-5

# Keras's own, of a seed that is set for the process, and of weights made in a trace.
KERAS_WARNINGS = [
    pytest.mark.filterwarnings("ignore:The initializer .* is unseeded"),
]

# Programs by configuration, those that are gone included.
_compiled: collections.Counter[int] = collections.Counter()
observers.observe(lambda executable: _compiled.update([executable.generation]))

Build = Callable[[], tf.keras.Model]
_layers = tf.keras.layers


def strategy(replicas: int = 1, **arguments: Any) -> ipu_strategy.IPUStrategy:
    """Configures a device with as many IPUs, and returns a strategy for it."""
    replica_helpers.configure(replicas)
    return ipu_strategy.IPUStrategy(**arguments)


def array(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns small random float32 values."""
    return replica_helpers.rows(1, shape, seed=seed)[0]


def labels(classes: int, *shape: int, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Returns random class indices."""
    return np.random.default_rng([seed, *shape]).integers(0, classes, shape).astype(dtype)


X = array(SAMPLES, 3)
Y = array(SAMPLES, 2, seed=1)


def dataset(
    x: Any = X, y: Any = Y, batch_size: int = BATCH, epochs: int | None = 1
) -> tf.data.Dataset:
    """Returns the batches of some data in their order; without end if `epochs` is None."""
    made = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size, drop_remainder=True)
    return made if epochs == 1 else made.repeat(epochs)


def seed(value: int = 7) -> None:
    """Seeds the weights that are made from now on.

    Not with Keras's own function: after it, Keras gives a warning wherever it makes a seed, in
    other tests too.
    """
    random.seed(value)
    tf.random.set_seed(value)


def _sgd() -> Any:
    # Others take much longer to trace.
    return tf.keras.optimizers.SGD(0.1)


class Kind(NamedTuple):
    """A kind of model: its builder, its data, and its compile arguments."""

    build: Build
    x: Any = X
    y: Any = Y
    loss: Any = "mse"
    metrics: Any = ("mae",)
    loss_weights: Any = None

    def compiled(self, optimizer: Any = _sgd, **arguments: Any) -> tf.keras.Model:
        """Returns a new model, always with the same weights."""
        seed()
        model = self.build()
        metrics = self.metrics
        model.compile(
            **{
                "optimizer": optimizer() if callable(optimizer) else optimizer,
                "loss": self.loss,
                "metrics": list(metrics) if isinstance(metrics, tuple) else metrics,
                "loss_weights": self.loss_weights,
                **arguments,
            },
        )
        return model


def sequential() -> tf.keras.Model:
    return tf.keras.Sequential([_layers.Dense(4, "tanh"), _layers.Dense(2)])


def _built_sequential() -> tf.keras.Model:
    return tf.keras.Sequential(
        [_layers.Input((3,)), _layers.Dense(4, "tanh"), _layers.Dropout(0.0), _layers.Dense(2)]
    )


def functional() -> tf.keras.Model:
    x = tf.keras.Input((3,))
    hidden = _layers.Dense(4, "tanh")(x)
    return tf.keras.Model(x, _layers.Dense(2)(_layers.Concatenate()([hidden, x])))


def several_outputs() -> tf.keras.Model:
    first, second = tf.keras.Input((3,), name="a"), tf.keras.Input((2,), name="b")
    hidden = _layers.Dense(4, "relu")(_layers.Concatenate()([first, second]))
    outputs = {
        "value": _layers.Dense(2, name="value")(hidden),
        "kind": _layers.Dense(3, "softmax", name="kind")(hidden),
    }
    return tf.keras.Model({"a": first, "b": second}, outputs)


class Subclass(tf.keras.Model):
    """A subclass of Model with layers and a call."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = _layers.Dense(4, "tanh")
        self.norm = _layers.BatchNormalization()
        self.outer = _layers.Dense(2)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        hidden = self.norm(self.hidden(inputs), training=training)
        if tf.reduce_sum(inputs) > 1e6:  # AutoGraph
            hidden = hidden + 1.0
        return self.outer(hidden)


class FunctionalSubclass(tf.keras.Model):
    """A subclass of Model that makes itself of inputs and outputs."""

    def __init__(self, units: int = 4) -> None:
        x = tf.keras.Input((3,))
        hidden = _layers.Dense(units, "tanh", name="hidden")(x)
        super().__init__(x, _layers.Dense(2)(hidden))
        self.units = units


def _nested() -> tf.keras.Model:
    x = tf.keras.Input((3,))
    inner = tf.keras.Sequential([_layers.Dense(4, "tanh"), Inner()])
    return tf.keras.Model(x, _layers.Dense(2)(functional()(x) + inner(x)))


class Inner(tf.keras.Model):
    """A model that is a layer of others."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = _layers.Dense(2)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.dense(inputs)


def _convolution() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            _layers.Input((6, 6, 1), dtype="uint8"),
            _layers.Rescaling(1 / 255),
            _layers.Conv2D(3, 3, activation="relu"),
            _layers.BatchNormalization(),
            _layers.MaxPool2D(),
            _layers.Flatten(),
            _layers.Dense(3),
        ]
    )


def _text() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            _layers.Embedding(11, 4, mask_zero=True),
            _layers.LSTM(3),
            _layers.Dense(1, "sigmoid"),
        ]
    )


class WithOwnLoss(tf.keras.Model):
    """Adds a loss and a metric in its call; has regularizers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = _layers.Dense(4, "tanh", kernel_regularizer=tf.keras.regularizers.L2(0.1))
        self.outer = _layers.Dense(2, activity_regularizer=tf.keras.regularizers.L1(0.01))

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        hidden = self.hidden(inputs)
        self.add_loss(0.1 * tf.reduce_mean(hidden**2))
        self.add_metric(tf.reduce_max(hidden), name="largest", aggregation="mean")
        return self.outer(hidden)


class OneLoss(tf.keras.losses.Loss):
    """A loss that is a class of the user."""

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.abs(y_pred - y_true), axis=-1)


def scaled_error(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """A loss that is a function of the user."""
    return 3.0 * tf.reduce_mean((y_true - y_pred) ** 2, axis=-1)


MLP = Kind(sequential)

KINDS: Mapping[str, Kind] = {
    "sequential": MLP,
    "built_sequential": Kind(_built_sequential, loss=scaled_error),
    "functional": Kind(functional, loss=OneLoss(), metrics=None),
    "several_outputs": Kind(
        several_outputs,
        {"a": X, "b": Y},
        {"value": Y, "kind": labels(3, SAMPLES, dtype=np.int64)},
        {"value": "mse", "kind": "sparse_categorical_crossentropy"},
        {"value": ["mae"], "kind": ["accuracy"]},
        {"value": 0.5, "kind": 2.0},
    ),
    "subclass": Kind(Subclass),
    "functional_subclass": Kind(FunctionalSubclass),
    "nested": Kind(_nested),
    "convolution": Kind(
        _convolution,
        labels(256, SAMPLES, 6, 6, 1, dtype=np.uint8),
        labels(3, SAMPLES),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        ("accuracy",),
    ),
    "text": Kind(
        _text,
        labels(11, SAMPLES, 3),
        labels(2, SAMPLES, 1),
        "binary_crossentropy",
        ("accuracy", "AUC"),
    ),
    "own_loss": Kind(WithOwnLoss),
}


class Trained(NamedTuple):
    """Results of training a model."""

    model: tf.keras.Model
    history: dict[str, list[Any]]
    calls: list[tuple[Any, ...]]


class Recorder(tf.keras.callbacks.Callback):
    """Writes down every call of a hook, with its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def names(self, *wanted: str) -> list[tuple[Any, ...]]:
        """Returns the first argument of the calls of some hooks, after the name of the hook."""
        return [call[:2] for call in self.calls if call[0] in wanted]

    def logs(self, hook: str) -> list[Any]:
        """Returns the last argument of the calls of a hook."""
        return [call[-1] for call in self.calls if call[0] == hook]


def _hook(name: str) -> Callable[..., None]:
    def called(self: Recorder, *arguments: Any, **named: Any) -> None:
        values = (*arguments, *named.values())
        self.calls.append((name, *(dict(v) if isinstance(v, dict) else v for v in values)))

    return called


_POSITIONS = ("begin", "end")
HOOKS = (
    *(f"on_{mode}_{position}" for mode in ("train", "test", "predict") for position in _POSITIONS),
    *(
        f"on_{mode}_batch_{position}"
        for mode in ("train", "test", "predict")
        for position in _POSITIONS
    ),
    *(f"on_epoch_{position}" for position in _POSITIONS),
)
for _name in HOOKS:
    setattr(Recorder, _name, _hook(_name))


def train(
    kind: Kind,
    scope: Any = None,
    *,
    callbacks: Callable[[], Sequence[Any]] = tuple,
    data: Callable[[], Mapping[str, Any]] | None = None,
    optimizer: Any = _sgd,
    compile_with: Mapping[str, Any] | None = None,
    **fit: Any,
) -> Trained:
    """Makes, compiles and trains a model.

    Args:
        kind: What to train.
        scope: A strategy's; None for stock Keras.
        callbacks: Makes callbacks.
        data: Makes the arguments of `fit` with the data; those of the kind when None.
        optimizer: A name, or what makes an optimizer; plain SGD if left out.
        compile_with: Arguments of `compile`.
        **fit: Arguments of `fit`.
    """
    seed()  # orders of datasets follow from it
    arguments = {"x": kind.x, "y": kind.y, "batch_size": BATCH} if data is None else data()
    recorder = Recorder()
    with contextlib.nullcontext() if scope is None else scope:
        model = kind.compiled(optimizer, **(compile_with or {}))
        tf.random.set_seed(3)
        history = model.fit(
            **{
                "epochs": 2,
                "verbose": 0,
                "shuffle": False,
                **arguments,
                **fit,
                "callbacks": [recorder, *callbacks()],
            }
        )
    return Trained(model, history.history, recorder.calls)


def train_both(kind: Kind, **arguments: Any) -> tuple[Trained, Trained]:
    """Trains with stock Keras and on one IPU, checks that both are equal, and returns both.

    Stock Keras runs eagerly, which takes a third of the time for so few steps.
    """
    compiled = {**(arguments.get("compile_with") or {}), "run_eagerly": True}
    expected = train(kind, **{**arguments, "compile_with": compiled})
    found = train(kind, strategy().scope(), **arguments)
    assert_equal(found, expected)
    return found, expected


def assert_equal(found: Trained, expected: Trained) -> None:
    """Checks that two trainings have equal histories, weights and callback calls."""
    assert list(found.history) == list(expected.history)
    assert_close(found.history, expected.history)
    assert_same_weights(found.model, expected.model)
    assert [call[:-1] for call in found.calls] == [call[:-1] for call in expected.calls]
    for mine, theirs in zip(found.calls, expected.calls):
        if isinstance(theirs[-1], dict):
            assert list(mine[-1]) == list(theirs[-1])
            assert {type(value) for value in mine[-1].values()} <= {float, int, np.ndarray}
        assert_close(mine[-1], theirs[-1])


def assert_same_weights(found: tf.keras.Model, expected: tf.keras.Model) -> None:
    """Checks that two models have the same weights, and their optimizers the same state."""
    assert_close(found.get_weights(), expected.get_weights())
    assert_close(state(found.optimizer), state(expected.optimizer))


def state(optimizer: Any) -> list[np.ndarray]:
    """Returns the variables of an optimizer of either generation."""
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    return [variable.numpy() for variable in variables]


def assert_close(found: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    """Checks two structures of numbers."""
    tf.nest.map_structure(
        lambda a, b: (
            np.testing.assert_allclose(
                np.asarray(a, np.float64), np.asarray(b, np.float64), tolerance, tolerance
            )
            if b is not None
            else None
        ),
        found,
        expected,
    )


def compilations() -> int:
    """Returns how many programs have been compiled since the device was configured."""
    return _compiled[system.current().generation]


def train_by_hand(
    model: tf.keras.Model,
    batch_size: int,
    replicas: int = 1,
    accumulated: int = 1,
    mean: bool = False,
    epochs: int = 1,
    x: np.ndarray = X,
    y: np.ndarray = Y,
    samples: int | None = None,
) -> dict[str, list[list[float]]]:
    """Trains a stock model as replicas would that accumulate gradients.

    An update takes `replicas * accumulated` batches. Gradients of replicas are summed, and those of
    one replica too, or their mean is taken.

    Returns:
        For each epoch the mean of loss and absolute error, for each replica.
    """
    count = (len(x) if samples is None else samples) // batch_size
    values: dict[str, list[list[float]]] = {"loss": [], "mae": []}
    for _ in range(epochs):
        seen = np.zeros((count // replicas, replicas, 2))
        for first in range(0, count, replicas * accumulated):
            gradients = []
            for batch in range(first, first + replicas * accumulated):
                rows = slice(batch * batch_size, (batch + 1) * batch_size)
                with tf.GradientTape() as tape:
                    predicted = model(tf.constant(x[rows]), training=True)
                    loss = model.compute_loss(None, tf.constant(y[rows]), predicted)
                gradients.append(tape.gradient(loss, model.trainable_variables))
                error = float(np.mean(np.abs(y[rows] - predicted)))
                seen[batch // replicas, batch % replicas] = float(loss), error
            totals = [tf.add_n(parts) / (accumulated if mean else 1) for parts in zip(*gradients)]
            model.optimizer.apply_gradients(zip(totals, model.trainable_variables))
        for index, name in enumerate(values):
            values[name].append(seen[:, :, index].mean(0).tolist())
    return values
