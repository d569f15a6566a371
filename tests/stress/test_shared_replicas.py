"""Replicas that share and take turns compute the bits of replicas that do neither."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import utils
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tensorflow_ipu.planner.schedule.description import PipelineSchedule
from tests.stress import keras_zoo, popxl_replica_programs, replica_programs
from tests.support.models import keras_models
from tests.support.processes import instances

SWITCH = "TENSORFLOW_IPU_REPLICAS_SHARE"
AT_ONCE = "TENSORFLOW_IPU_REPLICAS_AT_ONCE"
REPLICAS = (2, 4, 8)


def _check(
    run: Callable[[], Sequence[np.ndarray]],
    replicas: int,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    monkeypatch.setenv(AT_ONCE, str(replicas))
    expected = run()
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv(AT_ONCE, str(at_once))
    for found, array in zip(run(), expected, strict=True):
        assert found.tobytes() == array.tobytes()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes as many random programs as `--stress-programs` says; of PopXL a quarter as many."""
    programs = metafunc.config.getoption("--stress-programs")
    if "program" in metafunc.fixturenames:
        metafunc.parametrize("program", range(programs))
    if "popxl_program" in metafunc.fixturenames:
        metafunc.parametrize("popxl_program", range(1, 1 + programs // 4))


def test_random_programs_have_bits_of_unshared(
    program: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = REPLICAS[program % len(REPLICAS)]
    at_once = 1 + program // len(REPLICAS) % 2
    _check(lambda: replica_programs.run(program, replicas), replicas, at_once, monkeypatch)


@pytest.mark.large
@pytest.mark.parametrize("at_once", [1, 2])
def test_instances_have_bits_of_unshared(at_once: int) -> None:
    words = ["-m", "tests.stress.replica_programs", "0", "20"]
    (one,) = instances.run(words, 1, 4, {SWITCH: "0", AT_ONCE: "4"})
    outcomes = instances.run(words, 2, 4, {SWITCH: "1", AT_ONCE: str(at_once)})
    for expected, *found in zip(one.reports, *(outcome.reports for outcome in outcomes)):
        # Two launches, with a row for each replica; then variables, of which the first replica of
        # each process has its own.
        for launch in ("result 0", "result 1"):
            joined = np.concatenate([results[launch] for results in found], axis=1)
            assert joined.tobytes() == expected[launch].tobytes()
        for name in sorted(expected)[2:]:
            assert found[0][name].tobytes() == expected[name].tobytes()


@pytest.mark.large
@pytest.mark.parametrize("at_once", [1, 2])
def test_popxl_instances_have_bits_of_unshared(at_once: int) -> None:
    words = ["-m", "tests.stress.popxl_replica_programs", "0", "20"]
    (one,) = instances.run(words, 1, 8, {SWITCH: "0", AT_ONCE: "8"})
    outcomes = instances.run(words, 2, 8, {SWITCH: "1", AT_ONCE: str(at_once)})
    for expected, *found in zip(one.reports, *(outcome.reports for outcome in outcomes)):
        # A row for each replica in each run; then variables, of which the first replica of each
        # process may have its own.
        for name in sorted(expected):
            is_run = name in ("result 0", "result 1")
            own = [results[name] for results in found[: None if is_run else 1]]
            value = np.concatenate(own) if is_run else own[0]
            assert value.tobytes() == expected[name].tobytes()


def test_popxl_programs_have_bits_of_unshared(
    popxl_program: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = REPLICAS[popxl_program % len(REPLICAS)]
    at_once = 1 + popxl_program // len(REPLICAS) % 2
    _check(
        lambda: popxl_replica_programs.run(popxl_program, replicas), replicas, at_once, monkeypatch
    )


_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.05),
    "momentum": lambda: tf.keras.optimizers.SGD(0.05, 0.9),
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
}


def _with_dropout() -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Dense(12, "relu", input_shape=(6,)),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(keras_zoo.CLASSES, "softmax"),
        ]
    )


_NETWORKS = {
    "dropout": keras_zoo.Entry(_with_dropout, (6,)),
    "blocks": keras_zoo.SMALL["blocks"],
    "recurrent": keras_zoo.SMALL["recurrent"],
}


def _fit(network: str, optimizer: str, accumulated: int, replicas: int) -> list[np.ndarray]:
    """Trains a network for two epochs; returns losses, weights and the optimizer's state."""
    with keras_models.strategy(replicas).scope():
        keras_models.seed()
        utils.reset_ipu_seed(3)
        model = _NETWORKS[network].build()
        model.compile(
            _OPTIMIZERS[optimizer](),
            "sparse_categorical_crossentropy",
            ["accuracy"],
            steps_per_execution=8,
        )
        model.set_gradient_accumulation_options(accumulated, "mean")
        x, y = keras_zoo.data(_NETWORKS[network], 32 * replicas)
        history = model.fit(x, y, batch_size=2, epochs=2, verbose=0, shuffle=False)
        state = [variable.numpy() for variable in model.optimizer.variables()]
        losses = [np.asarray(values) for values in history.history.values()]
    return [*losses, *model.get_weights(), *state]


@pytest.mark.parametrize(
    ("network", "optimizer", "accumulated", "replicas"),
    [("dropout", "adam", 1, 2), ("dropout", "momentum", 4, 4)],
)
def test_fits_have_bits_of_unshared(
    network: str,
    optimizer: str,
    accumulated: int,
    replicas: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = functools.partial(_fit, network, optimizer, accumulated, replicas)
    _check(run, replicas, 1, monkeypatch)


@pytest.mark.large
@pytest.mark.parametrize("replicas", [1, 2, 8])
@pytest.mark.parametrize("accumulated", [1, 4])
@pytest.mark.parametrize("optimizer", _OPTIMIZERS)
@pytest.mark.parametrize("network", _NETWORKS)
def test_all_fits_have_bits_of_unshared(
    network: str,
    optimizer: str,
    accumulated: int,
    replicas: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = functools.partial(_fit, network, optimizer, accumulated, replicas)
    _check(run, replicas, 1, monkeypatch)


STAGES, MINI_BATCHES, WIDTH = 2, 4, 20


def _fit_pipeline(schedule: PipelineSchedule, optimizer: str, replicas: int) -> list[np.ndarray]:
    """Trains a pipeline with dropout and a layer that is used twice."""
    layers = tf.keras.layers
    with keras_models.strategy(STAGES * replicas).scope():
        keras_models.seed()
        utils.reset_ipu_seed(5)
        x = inputs = layers.Input((6,))
        with PipelineStage(0):
            x = layers.LayerNormalization()(layers.Dense(WIDTH, "relu")(x))
        with PipelineStage(1):
            wide = layers.Dense(WIDTH, "tanh")
            x = layers.Dropout(0.3)(wide(wide(x)))
            x = layers.Dense(keras_zoo.CLASSES, "softmax")(x)
        model = tf.keras.Model(inputs, x)
        model.compile(
            _OPTIMIZERS[optimizer](),
            "sparse_categorical_crossentropy",
            ["accuracy"],
            steps_per_execution=2 * MINI_BATCHES,
        )
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=MINI_BATCHES,
            gradient_accumulation_reduction_method="mean",
            pipeline_schedule=schedule,
        )
        data = keras_zoo.data(keras_zoo.Entry(_with_dropout, (6,)), 8 * MINI_BATCHES * replicas)
        history = model.fit(*data, batch_size=2, epochs=2, verbose=0, shuffle=False)
        state = [variable.numpy() for variable in model.optimizer.variables()]
    losses = [np.asarray(values) for values in history.history.values()]
    return [*losses, *model.get_weights(), *state]


_PIPELINES = [
    pytest.param(PipelineSchedule.Grouped, "adam", 4),
    pytest.param(PipelineSchedule.Interleaved, "momentum", 8, marks=pytest.mark.large),
    pytest.param(PipelineSchedule.Sequential, "sgd", 8, marks=pytest.mark.large),
]


@pytest.mark.parametrize(("schedule", "optimizer", "replicas"), _PIPELINES)
def test_pipelines_have_bits_of_unshared(
    schedule: PipelineSchedule, optimizer: str, replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = functools.partial(_fit_pipeline, schedule, optimizer, replicas)
    _check(run, replicas, 1, monkeypatch)
