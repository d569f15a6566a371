"""Programs of a model: made once for each use, and freed with the model."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import cache
from tensorflow_ipu.configs import flags
from tests.support.models import keras_models
from tests.support.models.keras_models import BATCH, KINDS, X, Y, assert_close, dataset

pytestmark = keras_models.KERAS_WARNINGS

_KIND = KINDS["functional"]


def _fit(model: tf.keras.Model, x: Any = X, y: Any = Y, **arguments: Any) -> None:
    model.fit(x, y, **{"batch_size": BATCH, "verbose": 0, **arguments})


def test_programs_are_used_again() -> None:
    with keras_models.strategy().scope():
        model = _KIND.compiled(steps_per_execution=2)
        for _ in range(2):
            _fit(model, epochs=2, validation_data=(X, Y))
            model.evaluate(X[:8], Y[:8], BATCH, verbose=0)
            model.predict(X, BATCH, verbose=0)
        assert keras_models.compilations() == 3
        _fit(model, X[:16], Y[:16], callbacks=[tf.keras.callbacks.TerminateOnNaN()])
        _fit(model, shuffle=False)
        _fit(model, dataset(), None, batch_size=None)
        assert keras_models.compilations() == 3


@pytest.mark.parametrize(
    ("change", "compilations"),
    [
        (lambda model: model.set_gradient_accumulation_options(2), 2),
        # The same program, with other queues.
        (lambda model: model.set_infeed_queue_options(prefetch_depth=2), 1),
        (lambda model: model.set_outfeed_queue_options(buffer_depth=2), 1),
        (lambda model: model.set_replication_options("SUM"), 1),
        (lambda model: model.set_asynchronous_callbacks(True), 2),
        (lambda model: model.compile("sgd", "mse", steps_per_execution=2), 2),
    ],
    ids=["accumulation", "infeed", "outfeed", "replication", "asynchronous", "compile"],
)
def test_changes_make_programs_anew(
    change: Callable[[tf.keras.Model], None], compilations: int
) -> None:
    with keras_models.strategy().scope():
        model = _KIND.compiled(steps_per_execution=2)
        _fit(model)
        held = cache.executables()  # else it may be gone before an equal one is needed
        change(model)
        assert "_ipu_programs" not in model.__dict__
        _fit(model)
        assert keras_models.compilations() == compilations
        _fit(model)
        assert keras_models.compilations() == compilations
        del held


def test_other_shapes_types_and_steps_make_own_programs() -> None:
    with keras_models.strategy().scope():
        model = _KIND.compiled(steps_per_execution=2)
        for use in (
            lambda: model.predict(X, 4, verbose=0),
            lambda: model.predict(X, 6, verbose=0),
            lambda: model.predict((10 * X).astype(np.int32), 4, verbose=0),
            lambda: model.predict(X, 24, verbose=0),
        ):
            before = keras_models.compilations()
            use()
            use()
            assert keras_models.compilations() == before + 1


def test_model_is_freed_with_its_programs_and_queues() -> None:
    def use() -> list[weakref.ref[Any]]:
        model = _KIND.compiled(steps_per_execution=2)
        _fit(model, validation_data=(X, Y))
        model.predict(X, BATCH, verbose=0)
        programs = model.__dict__["_ipu_programs"].values()
        assert len(programs) == 3
        queues = [queue for program in programs for queue in (program._infeed, program._outfeed)]
        return [weakref.ref(thing) for thing in (model, *programs, *queues)]

    with keras_models.strategy().scope():
        references = use()
        gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def test_the_data_of_a_call_are_freed() -> None:
    class Batches(np.ndarray):
        pass

    with keras_models.strategy().scope():
        model = _KIND.compiled(steps_per_execution=2)
        x = X.view(Batches)
        model.predict(x, BATCH, verbose=0)
        reference = weakref.ref(x)
        del x
        gc.collect()
        assert reference() is None


def test_models_may_be_made_again_and_again() -> None:
    strategy = keras_models.strategy()
    for _ in range(3):
        with strategy.scope():
            model = _KIND.compiled(steps_per_execution=6)
            found = model.predict(X, BATCH, verbose=0)
        del model
        tf.keras.backend.clear_session()
        gc.collect()
    assert_close(found, _KIND.compiled(run_eagerly=True).predict(X, verbose=0))


def test_queues_get_the_options_of_the_model() -> None:
    with keras_models.strategy().scope():
        model = _KIND.compiled()
        model.set_infeed_queue_options(prefetch_depth=5)
        model.predict(X, BATCH, verbose=0)
        (program,) = model.__dict__["_ipu_programs"].values()
        assert program._infeed._feed.prefetch_depth == 5


@pytest.fixture(params=["outfeed", "infeed,outfeed"])
def synthetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Turns data transfer off."""
    categories = [f"--synthetic_data_categories={name}" for name in request.param.split(",")]
    monkeypatch.setenv(flags.VARIABLE, " ".join(categories))
    flags._reset_for_tests()
    yield
    monkeypatch.undo()
    flags._reset_for_tests()


@pytest.mark.usefixtures("synthetic")
@pytest.mark.parametrize(("replicas", "asynchronous"), [(1, False), (2, False), (2, True)])
def test_synthetic_outfeeds_give_zeros(replicas: int, asynchronous: bool) -> None:
    recorder = keras_models.Recorder()
    with keras_models.strategy(replicas).scope():
        model = _KIND.compiled(steps_per_execution=3)
        model.set_asynchronous_callbacks(asynchronous)
        history = model.fit(X, Y, BATCH, epochs=2, verbose=0, callbacks=[recorder]).history
        predicted = model.predict(X, BATCH, verbose=0)
    assert history == {"loss": [0.0, 0.0]}
    assert_close(predicted, np.zeros((24, 2)))
    ends = recorder.names("on_train_batch_end")
    assert len(ends) == 2 * (6 if asynchronous else 6 // 3 // replicas)
