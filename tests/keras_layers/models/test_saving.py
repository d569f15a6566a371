"""Saving and loading models with their options, between the IPU and stock Keras."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.models import saving
from tensorflow_ipu.keras_layers.models.extension import ModelExtension
from tensorflow_ipu.keras_layers.models.model_options import CONFIG_KEYS, ModelOptions
from tests.support.programs import replicas

pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")

cloning = keras2.module("models.cloning")
serialization_lib = keras2.module("saving.serialization_lib")
saved_model_load = keras2.module("saving.legacy.saved_model.load")

X = replicas.rows(1, (24, 3))[0]
Y = replicas.rows(1, (24, 2), seed=1)[0]
BATCH = 4

# What `set_options` sets, as a configuration.
OPTIONS = {
    "gradient_accumulation_steps_per_replica": 2,
    "gradient_accumulation_reduction_method": 2,
    "replicated_metric_reduction_method": 3,
    "asynchronous_callbacks": True,
    "custom_train_step": False,
    "pipelining_gradient_accumulation_steps_per_replica": 8,
    "pipelining_device_mapping": [0, 1],
    "pipelining_accumulate_outfeed": True,
    "infeed_kwargs": {"prefetch_depth": 2},
    "outfeed_kwargs": {"buffer_depth": 4, "optimise_latency": True},
}
DEFAULTS = ModelOptions().to_config()


class Subclass(tf.keras.Model):
    """A model made by a call of its class, with the arguments as Keras converts them."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden = tf.keras.layers.Dense(4, "tanh")
        self.outer = tf.keras.layers.Dense(units)

    def call(self, inputs: Any) -> Any:
        return self.outer(self.hidden(inputs))


@tf.keras.utils.register_keras_serializable("tests")
class Registered(Subclass):
    """A model that Keras knows by another name, with a configuration of its own."""

    def __init__(self, units: int, extra: int = 1, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.units = units
        self.extra = extra

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "extra": self.extra}


class Forgetful(Registered):
    """A model whose configuration does not start from its parents' configuration."""

    def get_config(self) -> dict[str, Any]:
        return {"units": self.units}


class OwnConstructor(tf.keras.Model):
    """A functional model with a constructor of its own."""

    def __init__(self, units: int) -> None:
        inputs = tf.keras.Input((3,))
        super().__init__(inputs, tf.keras.layers.Dense(units, name="outer")(inputs))


CUSTOM = {kind.__name__: kind for kind in (Subclass, Forgetful, OwnConstructor)}


def sequential() -> tf.keras.Model:
    hidden = tf.keras.layers.Dense(4, "tanh", input_shape=(3,), name="hidden")
    return tf.keras.Sequential([hidden, tf.keras.layers.Dense(2, name="outer")], name="chain")


def functional() -> tf.keras.Model:
    inputs = tf.keras.Input((3,), name="x")
    hidden = tf.keras.layers.Dense(4, "tanh", name="hidden")(inputs)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(2, name="outer")(hidden), name="graph")


def subclass() -> tf.keras.Model:
    return built(Subclass(2, name="own"))


def registered() -> tf.keras.Model:
    return built(Registered(2, extra=3, name="registered"))


def built(model: tf.keras.Model) -> tf.keras.Model:
    model(X[:BATCH])
    return model


KINDS = [sequential, functional, subclass, registered]
NETWORKS = [sequential, functional]
# The ways to save a whole model: a file each.
FORMATS = ["folder", "file.h5", "file.keras"]
WHOLE_MODELS = [
    (kind, file) for kind in KINDS for file in FORMATS if kind in NETWORKS or file != "file.h5"
]
TRAINED_MODELS = [
    *((*case, "adam") for case in WHOLE_MODELS if case[0] is not registered),
    *((sequential, file, "legacy_adam") for file in FORMATS),
]
OPTIMIZERS = {
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
    "momentum": lambda: tf.keras.optimizers.SGD(0.01, momentum=0.9),
    "legacy_adam": lambda: tf.keras.optimizers.legacy.Adam(0.01),
}


@contextlib.contextmanager
def ipu(strategy: ipu_strategy.IPUStrategy | None = None) -> Iterator[None]:
    """Opens the scope of a strategy: a new one, if none is given."""
    with (strategy or ipu_strategy.IPUStrategy()).scope():
        yield


@contextlib.contextmanager
def info_is_logged() -> Iterator[None]:
    """Lets absl log messages of severity INFO. Keras restores the level that absl reports."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    try:
        yield
    finally:
        logging.set_verbosity(before)


@pytest.fixture(autouse=True)
def configured() -> None:
    replicas.configure(1)


def set_options(model: tf.keras.Model) -> tf.keras.Model:
    """Sets all options that are saved."""
    model.set_gradient_accumulation_options(2)
    model.set_pipelining_options(8, [0, 1], True, "running_mean")
    model.set_infeed_queue_options(prefetch_depth=2)
    model.set_outfeed_queue_options(buffer_depth=4, optimise_latency=True)
    model.set_replication_options("MEAN")
    model.set_asynchronous_callbacks(True)
    model.set_custom_train_step(False)
    return model


def staged(model: tf.keras.Model) -> list[Any]:
    """Returns an assignment with each layer in a stage of its own."""
    assignment = model.get_pipeline_stage_assignment()
    for stage, element in enumerate(assignment):
        element.pipeline_stage = stage
    return assignment


def load(path: Path) -> tf.keras.Model:
    return tf.keras.models.load_model(path, custom_objects=CUSTOM)


def fit(model: tf.keras.Model, optimizer: str | None = None, **kwargs: Any) -> dict[str, Any]:
    """Fits a model in the order of the data, compiled anew if an optimizer is given."""
    if optimizer is not None:
        model.compile(OPTIMIZERS[optimizer](), "mse", steps_per_execution=2)
    kwargs = {"batch_size": BATCH, "shuffle": False, "verbose": 0, **kwargs}
    return model.fit(X, Y, **kwargs).history


def optimizer_state(model: tf.keras.Model) -> list[np.ndarray]:
    """Returns the values of the variables of the optimizer, made if they are not there yet."""
    optimizer = model.optimizer
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(model.trainable_variables)
        return optimizer.get_weights()
    optimizer.build(model.trainable_variables)
    return [variable.numpy() for variable in optimizer.variables]


def assert_equal(values: Any, expected: Any) -> None:
    """Asserts that lists of arrays are equal, bit by bit."""
    assert len(values) == len(expected)
    for value, wanted in zip(values, expected):
        np.testing.assert_array_equal(value, wanted)


def assert_stock(model: tf.keras.Model, like: tf.keras.Model) -> None:
    """Asserts that a model is one of stock Keras, of the same class as another."""
    assert not isinstance(model, ModelExtension)
    assert type(model) is type(like)


def assert_options(model: tf.keras.Model, options: dict[str, Any]) -> None:
    """Asserts that a model is one for the IPU, with these options."""
    assert isinstance(model, ModelExtension)
    assert model._ipu_options.to_config() == options


def without_options(config: Any) -> Any:
    """Returns a configuration without the keys of options, wherever they are."""
    if isinstance(config, dict):
        return {
            key: without_options(config[key])
            for key in config
            if key not in (*CONFIG_KEYS, "ipu_options")
        }
    return [without_options(item) for item in config] if isinstance(config, list) else config


class TestOptionsAreKept:
    """Options after a model was saved and loaded."""

    @pytest.mark.parametrize(("kind", "file"), WHOLE_MODELS)
    def test_options_are_kept_in_files(
        self, kind: Callable[[], Any], file: str, tmp_path: Path
    ) -> None:
        with ipu():
            model = kind()
            model.compile("sgd", "mse")
            set_options(model).save(tmp_path / file)
            loaded = load(tmp_path / file)
            assert_options(loaded, OPTIONS)
            assert_equal(loaded.get_weights(), model.get_weights())

    @pytest.mark.parametrize("kind", KINDS)
    def test_options_are_kept_in_configurations(self, kind: Callable[[], Any]) -> None:
        with ipu():
            model = set_options(kind())
            config = json.loads(json.dumps(model.get_config()))
            assert {key: config[key] for key in CONFIG_KEYS} == OPTIONS
            loaded = type(model).from_config(config)
            assert_options(loaded, OPTIONS)
            assert loaded.get_config() == model.get_config()

    @pytest.mark.parametrize("kind", KINDS)
    def test_options_are_kept_in_json(self, kind: Callable[[], Any]) -> None:
        with ipu():
            text = set_options(kind()).to_json()
            custom = {**CUSTOM, "Registered": Registered}
            assert_options(tf.keras.models.model_from_json(text, custom), OPTIONS)

    @pytest.mark.parametrize("kind", KINDS)
    def test_options_are_kept_in_clones(self, kind: Callable[[], Any]) -> None:
        with ipu():
            model = set_options(kind())
            clone = tf.keras.models.clone_model(model)
            assert type(clone) is type(model)
            assert_options(clone, OPTIONS)
            clone.set_infeed_queue_options(prefetch_depth=3)
            clone._ipu_options.pipelining_device_mapping.append(2)
            assert_options(model, OPTIONS)

    @pytest.mark.parametrize("file", FORMATS)
    def test_options_are_kept_in_nested_models(self, file: str, tmp_path: Path) -> None:
        with ipu():
            inputs = tf.keras.Input((3,))
            nested = set_options(functional())
            model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(nested(inputs)))
            model.set_replication_options("SUM")
            model.save(tmp_path / file)
            loaded = tf.keras.models.load_model(tmp_path / file, compile=False)
            assert_options(loaded, {**DEFAULTS, "replicated_metric_reduction_method": 2})
            assert_options(loaded.get_layer("graph"), OPTIONS)

    @pytest.mark.parametrize("file", FORMATS)
    def test_files_of_stock_keras_have_defaults(self, file: str, tmp_path: Path) -> None:
        functional().save(tmp_path / file)
        with ipu():
            assert_options(tf.keras.models.load_model(tmp_path / file, compile=False), DEFAULTS)

    @pytest.mark.parametrize(
        ("kind", "file"), [case for case in WHOLE_MODELS if case[0] is not registered]
    )
    def test_stages_are_kept_in_files_and_clones(
        self, kind: Callable[[], Any], file: str, tmp_path: Path
    ) -> None:
        with ipu():
            model = kind()
            model.build((None, 3))
            model.set_pipeline_stage_assignment(staged(model))
            assert model._is_pipelined()
            model.save(tmp_path / file)
            loaded = tf.keras.models.load_model(tmp_path / file, CUSTOM, compile=False)
            clone = tf.keras.models.clone_model(model)
            for copy in (loaded, clone):
                assert [e.pipeline_stage for e in copy.get_pipeline_stage_assignment()] == [0, 1]
        stock = tf.keras.models.load_model(tmp_path / file, CUSTOM, compile=False)
        assert_stock(stock, kind())

    def test_missing_keys_leave_what_the_constructor_sets(self) -> None:
        class Choosy(Subclass):
            def __init__(self, units: int) -> None:
                super().__init__(units)
                self.set_asynchronous_callbacks(True)
                self.set_replication_options("SUM")

        with ipu():
            model = Choosy.from_config({"units": 2, "replicated_metric_reduction_method": 1})
            assert_options(
                model,
                {
                    **DEFAULTS,
                    "asynchronous_callbacks": True,
                    "replicated_metric_reduction_method": 1,
                },
            )

    def test_of_saved_model_whose_class_is_not_known(self, tmp_path: Path) -> None:
        with ipu():
            set_options(subclass()).save(tmp_path / "first")
            first = tf.keras.models.load_model(tmp_path / "first", compile=False)
            assert_options(first, OPTIONS)
            first.set_asynchronous_callbacks(False)
            first.save(tmp_path / "second")
            second = tf.keras.models.load_model(tmp_path / "second", compile=False)
            assert_options(second, {**OPTIONS, "asynchronous_callbacks": False})

    def test_class_with_constructor_arguments_runs_when_loaded(self, tmp_path: Path) -> None:
        class Scaled(tf.keras.Model):
            def __init__(self, units: int) -> None:
                super().__init__()
                self.dense = tf.keras.layers.Dense(units)

            def call(self, x: tf.Tensor) -> tf.Tensor:
                return self.dense(x)

        rows = np.ones((4, 3), np.float32)
        with ipu():
            model = Scaled(2)
            expected = model.predict(rows, batch_size=4)
            model.save(tmp_path)
            loaded = tf.keras.models.load_model(tmp_path)
            np.testing.assert_array_equal(loaded.predict(rows, batch_size=4), expected)

    @pytest.mark.parametrize("kind", KINDS)
    def test_some_are_lost_and_the_log_says_so(
        self, kind: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with ipu(), info_is_logged():
            model = kind()
            model.save(tmp_path / "folder")
            assert "not saved" not in caplog.text
            model.set_gradient_accumulation_options(dtype=tf.float32)
            model.set_pipelining_options(name="pipeline")
            model.save(tmp_path / "folder")
            told = [record for record in caplog.records if "not saved" in record.message]
            assert [record.levelname for record in told] == ["INFO"]
            for name in ("gradient_accumulation_optimizer_kwargs", "pipelining_kwargs"):
                assert name in told[0].message
            assert_options(load(tmp_path / "folder"), DEFAULTS)
            assert load(tmp_path / "folder")._ipu_options.not_saved() == []


class TestSubclassesOfOtherForms:
    """Models that Keras treats in other ways than most."""

    def test_configuration_that_does_not_start_from_the_parents(self, tmp_path: Path) -> None:
        with ipu():
            model = set_options(built(Forgetful(2)))
            assert_options(Forgetful.from_config(model.get_config()), DEFAULTS)
            model.save(tmp_path / "file.keras")
            assert_options(load(tmp_path / "file.keras"), DEFAULTS)
            model.save(tmp_path / "folder")
            with pytest.raises(RuntimeError, match="Forgetful.*super\\(\\).get_config\\(\\)"):
                load(tmp_path / "folder")
        assert_stock(load(tmp_path / "folder"), Forgetful(2))

    def test_such_models_of_stock_keras_can_be_loaded(self, tmp_path: Path) -> None:
        built(Forgetful(2)).save(tmp_path / "folder")
        with ipu():
            assert_options(load(tmp_path / "folder"), DEFAULTS)

    @pytest.mark.parametrize("file", ["file.h5", "file.keras"])
    def test_a_functional_model_with_a_constructor_is_loaded(
        self, file: str, tmp_path: Path
    ) -> None:
        with ipu():
            model = set_options(OwnConstructor(2))
            model.save(tmp_path / file)
            loaded = tf.keras.models.load_model(tmp_path / file, CUSTOM, compile=False)
            assert_options(loaded, OPTIONS)
            assert_equal(loaded.get_weights(), model.get_weights())

    @pytest.mark.parametrize("file", ["folder", "file.keras"])
    def test_constructor_gets_its_own_arguments_only(self, file: str, tmp_path: Path) -> None:
        class Strict(Registered):
            @classmethod
            def from_config(cls, config: dict[str, Any]) -> Any:
                assert sorted(config) == ["extra", "units"]
                return cls(**config)

        with ipu():
            set_options(built(Strict(2))).save(tmp_path / file)
            custom = {"Strict": Strict}
            loaded = tf.keras.models.load_model(tmp_path / file, custom, compile=False)
            assert_options(loaded, OPTIONS)

    def test_sequential_model_that_was_not_built(self) -> None:
        with ipu():
            model = set_options(tf.keras.Sequential([tf.keras.layers.Dense(2)]))
            assert_options(tf.keras.Sequential.from_config(model.get_config()), OPTIONS)

    def test_old_configuration_of_a_sequential_model_is_loaded(self) -> None:
        with ipu():
            layers = sequential().get_config()["layers"]
            model = tf.keras.Sequential.from_config({"name": "old", "layers": layers})
            assert_options(model, DEFAULTS)


class TestStockKeras:
    """Configurations equal stock Keras's, and stock Keras loads saved models."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_serialized_form_extends_stock_keras(self, kind: Callable[[], Any]) -> None:
        expected = serialization_lib.serialize_keras_object(kind())
        with ipu():
            model = set_options(kind())
            serialized = serialization_lib.serialize_keras_object(model)
        assert without_options(serialized) == expected
        assert tf.keras.utils.get_registered_name(type(model)) == (
            tf.keras.utils.get_registered_name(type(kind()))
        )

    def test_models_made_by_arguments_have_changed_options_only(self) -> None:
        with ipu():
            model = subclass()
            assert not set(model.get_config()) & set(CONFIG_KEYS)
            model.set_asynchronous_callbacks(True)
            assert set(model.get_config()) & set(CONFIG_KEYS) == {"asynchronous_callbacks"}

    @pytest.mark.parametrize(("kind", "file", "optimizer"), TRAINED_MODELS)
    def test_stock_keras_loads_trained_models(
        self, kind: Callable[[], Any], file: str, optimizer: str, tmp_path: Path
    ) -> None:
        with ipu():
            model = kind()
            fit(model, optimizer)
            set_options(model).save(tmp_path / file)
            predictions = model.predict(X, batch_size=BATCH, verbose=0)
        loaded = load(tmp_path / file)
        assert_stock(loaded, kind())
        assert_equal(loaded.get_weights(), model.get_weights())
        np.testing.assert_allclose(loaded.predict(X, verbose=0), predictions, rtol=1e-5, atol=1e-6)
        if keeps_optimizer(file, optimizer):
            assert_equal(optimizer_state(loaded), optimizer_state(model))

    @pytest.mark.parametrize(("kind", "file", "optimizer"), TRAINED_MODELS)
    def test_models_of_stock_keras_are_loaded_for_training(
        self, kind: Callable[[], Any], file: str, optimizer: str, tmp_path: Path
    ) -> None:
        model = kind()
        fit(model, optimizer)
        model.save(tmp_path / file)
        with ipu():
            loaded = load(tmp_path / file)
            assert_options(loaded, DEFAULTS)
            assert_equal(loaded.get_weights(), model.get_weights())
            if not keeps_optimizer(file, optimizer):
                return
            assert_equal(optimizer_state(loaded), optimizer_state(model))
            history = fit(loaded)
        np.testing.assert_allclose(history["loss"], fit(model)["loss"], rtol=1e-4)
        for value, expected in zip(loaded.get_weights(), model.get_weights()):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("kind", NETWORKS)
    def test_stock_keras_ignores_options_in_configurations(self, kind: Callable[[], Any]) -> None:
        with ipu():
            model = set_options(kind())
            text, config = model.to_json(), model.get_config()
        assert_stock(tf.keras.models.model_from_json(text), kind())
        assert_stock(type(kind()).from_config(config), kind())

    def test_saved_models_name_no_ipu(self, tmp_path: Path) -> None:
        with ipu():
            model = functional()
            fit(model, "adam")
            model.save(tmp_path / "folder")
        assert b"device:IPU:" not in (tmp_path / "folder" / "saved_model.pb").read_bytes()

    def test_is_as_it_was_when_scope_is_left(self) -> None:
        places = [(owner, name) for owner, name, _ in saving.patches()]
        before = [vars(owner)[name] for owner, name in places]
        strategy = ipu_strategy.IPUStrategy()
        with ipu(strategy), ipu(strategy):
            for (owner, name), original in zip(places, before):
                assert vars(owner)[name] is not original
        assert [vars(owner)[name] for owner, name in places] == before
        assert {owner for owner, _ in places} == {
            tf.keras.Model,
            tf.keras.Sequential,
            cloning,
            saved_model_load.KerasObjectLoader,
        }

    def test_is_as_it_was_without_extensions(self, tmp_path: Path) -> None:
        with ipu():
            set_options(functional()).save(tmp_path / "file.h5")
        strategy = ipu_strategy.IPUStrategy(enable_keras_extensions=False)
        with strategy.scope():
            loaded = tf.keras.models.load_model(tmp_path / "file.h5", compile=False)
        assert_stock(loaded, functional())


def keeps_optimizer(file: str, optimizer: str) -> bool:
    """Returns whether Keras saves the state of an optimizer in a file.

    Neither generation is restored from a SavedModel, and the older one is not in `.keras` files.
    """
    return file == "file.h5" or (file == "file.keras" and not optimizer.startswith("legacy"))


class TestWeights:
    """Files with the values of variables only."""

    @pytest.mark.parametrize(
        ("file", "optimizer"),
        [
            ("checkpoint", "adam"),
            ("checkpoint", "legacy_adam"),
            ("file.h5", "momentum"),
            ("file.weights.h5", "momentum"),
        ],
    )
    @pytest.mark.parametrize("to_ipu", [False, True])
    def test_weights_of_stock_keras_and_ipu_are_interchangeable(
        self, file: str, optimizer: str, to_ipu: bool, tmp_path: Path
    ) -> None:
        scopes = [contextlib.nullcontext, ipu] if to_ipu else [ipu, contextlib.nullcontext]
        with scopes[0]():
            source = subclass()
            fit(source, optimizer)
            source.save_weights(tmp_path / file)
        with scopes[1]():
            target = subclass()
            target.compile(OPTIMIZERS[optimizer](), "mse", steps_per_execution=2)
            optimizer_state(target)
            status = target.load_weights(tmp_path / file)
            if file == "checkpoint":
                status.assert_consumed()
            assert_equal(target.get_weights(), source.get_weights())
            if file == "checkpoint":
                assert_equal(optimizer_state(target), optimizer_state(source))

    @pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
    @pytest.mark.parametrize("to_ipu", [False, True])
    def test_checkpoints_are_interchangeable(
        self, optimizer: str, to_ipu: bool, tmp_path: Path
    ) -> None:
        strategy = ipu_strategy.IPUStrategy()
        scopes = [contextlib.nullcontext, lambda: ipu(strategy)][:: 1 if to_ipu else -1]
        with scopes[0]():
            source = functional()
            fit(source, optimizer)
            checkpoint = tf.train.Checkpoint(model=source, optimizer=source.optimizer)
            path = checkpoint.save(tmp_path / "checkpoint")
        with scopes[1]():
            target = functional()
            target.compile(OPTIMIZERS[optimizer](), "mse", steps_per_execution=2)
            optimizer_state(target)
            checkpoint = tf.train.Checkpoint(model=target, optimizer=target.optimizer)
            checkpoint.restore(path).assert_consumed()
            assert_equal(target.get_weights(), source.get_weights())
            assert_equal(optimizer_state(target), optimizer_state(source))
            # Training goes on as it would have there.
            fit(target)
        with scopes[0]():
            fit(source)
        for value, expected in zip(target.get_weights(), source.get_weights()):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)
