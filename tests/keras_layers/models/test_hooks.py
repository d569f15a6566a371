"""Keras knows of IPUs only inside the scope of a strategy."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers.models import hooks, saving
from tensorflow_ipu.keras_layers.models.extension import (
    FunctionalExtension,
    ModelExtension,
    SequentialExtension,
)
from tests.support.models import keras_models
from tests.support.models.keras_models import KINDS, MLP, FunctionalSubclass, Subclass

pytestmark = keras_models.KERAS_WARNINGS

_SETTERS = (
    "set_gradient_accumulation_options",
    "set_pipelining_options",
    "set_infeed_queue_options",
    "set_outfeed_queue_options",
    "set_replication_options",
    "set_asynchronous_callbacks",
    "set_custom_train_step",
    "get_pipeline_stage_assignment",
    "set_pipeline_stage_assignment",
    "reset_pipeline_stage_assignment",
    "print_pipeline_stage_assignment_summary",
    "export_for_ipu_serving",
)


def _attributes() -> dict[tuple[str, str], Any]:
    """Returns the attributes of Keras's classes and modules."""
    owners: list[Any] = [
        tf.keras.Model,
        tf.keras.Sequential,
        tf.keras.layers.Layer,
        tf.keras.optimizers.Optimizer,
        hooks.compile_utils,
        *{type(KINDS["functional"].build())},
        *(patch[0] for patch in saving.patches()),
    ]
    return {
        (owner.__name__, name): value for owner in owners for name, value in vars(owner).items()
    }


def _changed(before: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    after = _attributes()
    # Caches of ABCs are made anew at each look at them.
    names = {name for name in before.keys() | after.keys() if not name[1].startswith("_abc")}
    return {name for name in names if before.get(name) is not after.get(name)}


def test_leaving_the_scope_leaves_keras_as_it_was() -> None:
    before, bases = _attributes(), FunctionalSubclass.__bases__
    strategy = keras_models.strategy()
    with strategy.scope():
        assert ("Model", "__new__") in _changed(before)
        MLP.compiled().fit(keras_models.X, keras_models.Y, keras_models.BATCH, verbose=0)
        FunctionalSubclass()
    assert _changed(before) == set()
    assert FunctionalSubclass.__bases__ == bases


@pytest.mark.parametrize("first", ["stock", "ipu"])
def test_a_class_may_make_models_of_both_kinds(first: str) -> None:
    class Own(tf.keras.Model):
        def __init__(self) -> None:
            x = tf.keras.Input((3,))
            super().__init__(x, tf.keras.layers.Dense(2)(x))

    class Derived(Own):
        pass

    strategy = keras_models.strategy()
    made: dict[str, list[tf.keras.Model]] = {}
    for kind in ("stock", "ipu", "stock") if first == "stock" else ("ipu", "stock", "ipu"):
        if kind == "stock":
            made[kind] = [Own(), Derived()]
            continue
        with strategy.scope():
            made.setdefault(kind, []).extend([Derived(), Own()])
    assert not any(isinstance(model, ModelExtension) for model in made["stock"])
    for model in made["ipu"]:
        assert isinstance(model, FunctionalExtension)
        assert type(model).fit is ModelExtension.fit
        assert model.predict(keras_models.X, keras_models.BATCH, verbose=0).shape == (24, 2)


def test_scopes_may_be_nested_and_entered_twice() -> None:
    before = _attributes()
    strategy = keras_models.strategy()
    scope = strategy.scope()
    with scope:
        with scope:
            with strategy.scope():
                assert isinstance(MLP.build(), ModelExtension)
            assert isinstance(MLP.build(), ModelExtension)
        assert isinstance(MLP.build(), ModelExtension)
    assert _changed(before) == set()
    assert not isinstance(MLP.build(), ModelExtension)


def test_an_exception_leaves_the_scope() -> None:
    before = _attributes()
    with pytest.raises(KeyError):
        with keras_models.strategy().scope():
            raise KeyError
    assert _changed(before) == set()
    assert not tf.distribute.has_strategy()


def test_a_scope_that_cannot_be_entered_changes_nothing() -> None:
    before = _attributes()
    strategy = keras_models.strategy()
    with tf.distribute.OneDeviceStrategy("/device:CPU:0").scope():
        with pytest.raises(RuntimeError):
            strategy.scope().__enter__()
    assert _changed(before) == set()


def test_without_extensions_models_are_those_of_stock_keras() -> None:
    before = _attributes()
    with keras_models.strategy(enable_keras_extensions=False).scope():
        # What checks that they were made in the scope.
        assert not {name for _, name in _changed(before)} & {"__new__", "__init__", "fit"}
        models = [MLP.build(), KINDS["functional"].build(), Subclass(), FunctionalSubclass()]
    for model in models:
        assert not isinstance(model, ModelExtension)
        assert not any(hasattr(model, name) for name in _SETTERS)


def test_models_made_outside_have_none_of_the_methods() -> None:
    with keras_models.strategy().scope():
        Subclass()
        FunctionalSubclass()
    for model in (MLP.build(), KINDS["functional"].build(), Subclass(), FunctionalSubclass()):
        assert not isinstance(model, ModelExtension)
        assert not any(hasattr(model, name) for name in _SETTERS)


@pytest.mark.parametrize(
    ("build", "base", "cls"),
    [
        (MLP.build, SequentialExtension, tf.keras.Sequential),
        (KINDS["functional"].build, FunctionalExtension, tf.keras.Model),
        (Subclass, ModelExtension, Subclass),
        (FunctionalSubclass, FunctionalExtension, FunctionalSubclass),
    ],
)
def test_models_are_instances_of_their_class_and_extension(
    build: Any, base: type, cls: type
) -> None:
    outside = build()
    with keras_models.strategy().scope():
        model = build()
        again = build()
    assert isinstance(model, base) and isinstance(model, cls)
    assert isinstance(model, type(outside))
    assert type(model).__name__ == type(outside).__name__
    assert type(model).__module__ == type(outside).__module__
    assert type(model).__doc__ == type(outside).__doc__
    assert type(again) is type(model)
    assert all(hasattr(model, name) for name in _SETTERS)
    # A model is named after its class, and counted.
    assert model.name.rstrip("_0123456789") == outside.name.rstrip("_0123456789")


def test_what_the_user_overrides_comes_first() -> None:
    class Own(FunctionalSubclass):
        def predict(self, *args: Any, **kwargs: Any) -> Any:
            return 2.0 * super().predict(*args, **kwargs)

        def set_infeed_queue_options(self, **kwargs: Any) -> str:
            return "own"

    with keras_models.strategy().scope():
        keras_models.seed()
        model = Own()
        found = model.predict(keras_models.X, verbose=0, batch_size=8)
        assert model.set_infeed_queue_options() == "own"
    keras_models.seed()
    keras_models.assert_close(found, Own().predict(keras_models.X, verbose=0))


def test_attributes_of_model_are_those_of_stock_keras() -> None:
    with keras_models.strategy().scope():
        model = Subclass()
        model.set_gradient_accumulation_options(2)
        model.extra = tf.keras.layers.Dense(3)
        model.list_of_layers = [tf.keras.layers.Dense(3)]
    assert [layer.name for layer in model.layers] == [
        layer.name for layer in (model.hidden, model.norm, model.outer, model.extra)
    ] + [model.list_of_layers[0].name]
    assert not any("ipu" in name for name, _ in model._trackable_children().items())


def test_another_thread_makes_ordinary_models() -> None:
    made: list[tf.keras.Model] = []
    with keras_models.strategy().scope():
        thread = threading.Thread(target=lambda: made.append(MLP.build()))
        thread.start()
        thread.join()
    assert not isinstance(made[0], ModelExtension)


def test_two_threads_may_have_scopes_of_their_own() -> None:
    before = _attributes()
    strategy = keras_models.strategy()
    entered, leave = threading.Event(), threading.Event()

    def enter() -> None:
        with strategy.scope():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=enter)
    thread.start()
    assert entered.wait(60)
    with ipu_strategy.IPUStrategy().scope():
        pass
    with hooks.extended_models():
        leave.set()
        thread.join()
        assert _changed(before) != set()
    assert _changed(before) == set()


def test_clones_are_models_for_the_ipu() -> None:
    with keras_models.strategy().scope():
        for kind in ("built_sequential", "functional"):
            clone = tf.keras.models.clone_model(KINDS[kind].build())
            assert isinstance(clone, ModelExtension)
    clone = tf.keras.models.clone_model(KINDS["functional"].build())
    assert not isinstance(clone, ModelExtension)


def test_model_classes_live_no_longer_than_models() -> None:
    import gc
    import weakref

    class Local(Subclass):
        pass

    with keras_models.strategy().scope():
        reference = weakref.ref(type(Local()))
    gc.collect()
    assert reference() is None


class _WithBuild(tf.keras.Model):
    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight("kernel", [input_shape[-1], 2])
        super().build(input_shape)

    def call(self, x: Any) -> Any:
        return x @ self.kernel


@pytest.mark.parametrize("attribute", ["weights", "trainable_weights", "variables"])
def test_weights_of_a_model_that_is_not_built(attribute: str) -> None:
    with keras_models.strategy().scope():
        for model in (keras_models.sequential(), _WithBuild(name="own")):
            with pytest.raises(ValueError, match=f"Weights for model '{model.name}' have not yet"):
                getattr(model, attribute)
            model.build((2, 3))
            assert getattr(model, attribute)
        # As in Keras, where a subclass without a `build` has the weights that there are.
        assert getattr(Subclass(), attribute) == []
