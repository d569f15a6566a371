"""How many steps are run: rules of epochs, executions and replicas."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu.keras_layers.models import steps as steps_lib
from tensorflow_ipu.keras_layers.models.data import Data
from tensorflow_ipu.keras_layers.models.steps import Steps
from tests.support.models import keras_models
from tests.support.models.keras_models import MLP, dataset

pytestmark = keras_models.KERAS_WARNINGS

_EMPTY = tf.data.Dataset.range(0)
ARRAYS = Data(_EMPTY, 12, is_infinite=False, is_one_dataset=True, batch_size=4)
DATASET = Data(_EMPTY, 12, is_infinite=False, is_one_dataset=False)
INFINITE = Data(_EMPTY, None, is_infinite=True, is_one_dataset=False)
UNKNOWN = dataclasses.replace(INFINITE, is_infinite=False)


def _plan(
    data: Data,
    requested: int | None = None,
    per_execution: int = 1,
    replicas: int = 1,
    epochs: int = 1,
) -> Steps:
    return steps_lib.plan(data, "steps_per_epoch", requested, per_execution, replicas, epochs)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"data": DATASET}, Steps(12, 1, 1, restarts=True)),
        ({"data": ARRAYS}, Steps(12, 1, 1, restarts=False)),
        ({"data": DATASET, "per_execution": 4}, Steps(12, 4, 1, restarts=True)),
        ({"data": DATASET, "replicas": 4}, Steps(3, 1, 4, restarts=True)),
        ({"data": DATASET, "replicas": 5}, Steps(2, 1, 5, restarts=True)),
        ({"data": ARRAYS, "replicas": 5}, Steps(2, 1, 5, restarts=False, left_out=2)),
        ({"data": DATASET, "requested": 12}, Steps(12, 1, 1, restarts=True)),
        ({"data": DATASET, "requested": 12, "epochs": 9}, Steps(12, 1, 1, restarts=True)),
        ({"data": DATASET, "requested": 4, "epochs": 3}, Steps(4, 1, 1, restarts=False)),
        (
            {"data": DATASET, "requested": 5, "replicas": 2, "epochs": 3},
            Steps(2, 1, 2, restarts=False),
        ),
        ({"data": ARRAYS, "requested": 4, "epochs": 9}, Steps(4, 1, 1, restarts=False)),
        (
            {"data": ARRAYS, "requested": 12, "replicas": 8, "epochs": 9},
            Steps(1, 1, 8, restarts=False, left_out=4),
        ),
        ({"data": INFINITE, "requested": 100, "epochs": 9}, Steps(100, 1, 1, restarts=False)),
        ({"data": UNKNOWN, "requested": 7, "replicas": 2}, Steps(3, 1, 2, restarts=False)),
    ],
)
def test_arguments_give_the_expected_plan_of_steps(
    arguments: dict[str, Any], expected: Steps
) -> None:
    assert _plan(**arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (
            {"data": INFINITE},
            "infinite dataset.*`steps_per_epoch`. Could not infer the size of the",
        ),
        ({"data": UNKNOWN}, "Could not infer the size of the data"),
        ({"data": DATASET, "replicas": 16}, "16 replicas are requested to run"),
        ({"data": DATASET, "requested": 3, "replicas": 4}, "replicas are requested to run"),
        (
            {"data": DATASET, "per_execution": 5},
            "`steps_per_execution` .* must be a divisor of the number of batches",
        ),
        (
            # 6 steps for each replica.
            {"data": DATASET, "per_execution": 4, "replicas": 2},
            "must be a divisor of the number of batches",
        ),
        (
            {"data": INFINITE, "requested": 10, "per_execution": 4},
            "must be a divisor of the number of batches",
        ),
        ({"data": DATASET, "requested": 5, "epochs": 3}, "Your input does not have enough data"),
        ({"data": DATASET, "requested": 13}, "Your input does not have enough data"),
        ({"data": ARRAYS, "requested": 13}, "Your input does not have enough data"),
        ({"data": DATASET, "requested": 0}, "Unexpected value for `steps_per_epoch`"),
        ({"data": DATASET, "requested": -1}, "Unexpected value for `steps_per_epoch`"),
        ({"data": DATASET, "requested": True}, "Unexpected value for `steps_per_epoch`"),
        ({"data": DATASET, "requested": 2.5}, "Unexpected value for `steps_per_epoch`"),
        ({"data": DATASET, "requested": "4"}, "Unexpected value for `steps_per_epoch`"),
    ],
)
def test_plans_that_are_refused(arguments: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        _plan(**arguments)


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the list that warnings are appended to."""
    messages: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: messages.append(text % args))
    return messages


def test_executions_are_no_longer_than_an_epoch(warnings: list[str]) -> None:
    assert _plan(DATASET, per_execution=20) == Steps(12, 12, 1, restarts=True)
    assert "larger than the number of steps" in warnings[0] and "truncated to 12" in warnings[0]


def test_leaving_out_batches_is_told(warnings: list[str]) -> None:
    for _ in range(2):
        _plan(DATASET, replicas=5, per_execution=2)
    assert warnings == [
        "2 of 12 batches of an epoch are left out: they do not divide into 5 replicas."
    ]


def test_one_step_for_an_execution_is_told(warnings: list[str]) -> None:
    many = dataclasses.replace(DATASET, size=2000)
    _plan(many)
    assert "larger `steps_per_execution`" in warnings[0]
    del warnings[:]
    _plan(many, per_execution=2)
    _plan(many, requested=1)
    _plan(DATASET)
    assert warnings == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"data": DATASET}, Steps(12, 1, 1, restarts=True)),
        ({"data": ARRAYS, "per_execution": 4}, Steps(12, 4, 1, restarts=False)),
        ({"data": ARRAYS, "per_execution": 5}, Steps(12, 5, 1, restarts=False, padding=3)),
        ({"data": DATASET, "replicas": 5}, Steps(3, 1, 5, restarts=True, padding=3)),
        (
            {"data": DATASET, "replicas": 5, "per_execution": 2},
            Steps(3, 2, 5, restarts=True, padding=8),
        ),
        ({"data": DATASET, "replicas": 16}, Steps(1, 1, 16, restarts=True, padding=4)),
        (
            {"data": INFINITE, "requested": 7, "replicas": 2},
            Steps(4, 1, 2, restarts=False, padding=1),
        ),
        ({"data": ARRAYS, "requested": 1}, Steps(1, 1, 1, restarts=False)),
        # A pipeline takes what its schedule can run.
        ({"data": DATASET, "per_execution": 24, "stages": 3}, Steps(12, 12, 1, restarts=True)),
        (
            {"data": UNKNOWN, "requested": 1, "per_execution": 24, "stages": 3},
            Steps(1, 6, 1, restarts=False, padding=5),
        ),
        (
            {"data": UNKNOWN, "requested": 7, "per_execution": 3, "stages": 3},
            Steps(7, 3, 1, restarts=False, padding=2),
        ),
    ],
)
def test_plans_that_run_all_batches(arguments: dict[str, Any], expected: Steps) -> None:
    given = {"requested": None, "per_execution": 1, "replicas": 1, **arguments}
    found = steps_lib.plan_inference(argument="steps", **given)
    assert found == expected
    assert found.batches == (arguments.get("requested") or 12)
    assert found.executed % found.per_execution == 0 and found.executed >= found.per_epoch


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"data": DATASET}, Steps(12, 1, 1, restarts=True)),
        (
            {"data": ARRAYS, "replicas": 5, "per_execution": 3},
            Steps(3, 3, 5, restarts=False, padding=3),
        ),
        (
            {"data": ARRAYS, "requested": 12, "accumulated": 5, "per_execution": 5},
            Steps(12, 5, 1, restarts=False, padding=3),
        ),
        (
            {"data": DATASET, "replicas": 2, "accumulated": 4, "per_execution": 20},
            Steps(6, 8, 2, restarts=True, padding=4),
        ),
    ],
)
def test_plans_fill_updates(arguments: dict[str, Any], expected: Steps) -> None:
    given = {"requested": None, "per_execution": 1, "replicas": 1, "accumulated": 1, **arguments}
    found = steps_lib.plan_padded_training(argument="steps_per_epoch", **given)
    assert found == expected
    assert found.batches == 12


@pytest.mark.parametrize(
    ("method", "name"),
    [("fit", "steps_per_epoch"), ("evaluate", "steps"), ("predict", "steps")],
)
def test_methods_check_their_steps(method: str, name: str) -> None:
    with keras_models.strategy(2).scope():
        model = MLP.compiled(steps_per_execution=2)
        cases = [
            (None, f"infinite dataset, .*`{name}`. Could not infer the size of the data"),
            (0, "Unexpected value for `" + name),
        ]
        if method == "fit":
            cases += [
                (1, "2 replicas are requested to run"),
                (6, "must be a divisor of the number of batches"),
            ]
        for steps, phrase in cases:
            with pytest.raises(ValueError, match=phrase):
                getattr(model, method)(dataset(epochs=None), **{name: steps})
        with pytest.raises(ValueError, match="does not have enough data"):
            getattr(model, method)(dataset(), **{name: 8})
