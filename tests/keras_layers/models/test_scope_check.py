"""Models and their parts that were made outside the scope are refused by name, or simply work."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers.optimizers import CrossReplicaOptimizer
from tests.support.models import keras_models
from tests.support.models.keras_models import BATCH, MLP, Subclass, X, Y

pytestmark = keras_models.KERAS_WARNINGS

_dense = tf.keras.layers.Dense


def _built() -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.Input((3,)), _dense(2)], name="mine")


def _compiled() -> tf.keras.Model:
    model = _built()
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def _classes(module: Any, base: type) -> list[type]:
    """Returns the public subclasses of a class that a module has, each once."""
    found = {cls for _, cls in inspect.getmembers(module, inspect.isclass) if issubclass(cls, base)}
    return sorted(found - {base}, key=lambda cls: cls.__name__)


class TestModels:
    """Whole models."""

    @pytest.mark.parametrize("extensions", [True, False])
    @pytest.mark.parametrize(
        "use",
        [
            lambda model: model.fit(X, Y, BATCH, verbose=0),
            lambda model: model.evaluate(X, Y, BATCH, verbose=0),
            lambda model: model.predict(X, BATCH, verbose=0),
            lambda model: model.train_on_batch(X, Y),
            lambda model: model.test_on_batch(X, Y),
            lambda model: model.predict_on_batch(X),
            lambda model: model.compile("sgd", "mse"),
        ],
    )
    def test_a_model_made_outside_the_scope_is_refused(
        self, use: Callable[[Any], Any], extensions: bool
    ) -> None:
        model = _compiled()
        strategy = keras_models.strategy(enable_keras_extensions=extensions)
        with strategy.scope():
            with pytest.raises(
                ValueError, match=r"'mine' \(Sequential\) was made outside"
            ) as error:
                use(model)
        assert "Make it inside `with strategy.scope():`" in str(error.value)
        use(model)  # on the host, as before

    def test_made_outside_has_no_options(self) -> None:
        model = _built()
        with keras_models.strategy().scope():
            with pytest.raises(AttributeError, match="'mine' has no set_pipelining_options"):
                model.set_pipelining_options(4)
            assert not hasattr(model, "export_for_ipu_serving")

    def test_a_model_may_be_used_after_the_scope(self) -> None:
        with keras_models.strategy().scope():
            model = _built()
        model.compile("adam", "mse")
        model.fit(X, Y, BATCH, verbose=0)
        assert model.predict(X, BATCH, verbose=0).shape == Y.shape

    @pytest.mark.parametrize("generation", [tf.keras.optimizers, tf.keras.optimizers.legacy])
    def test_model_may_use_another_strategy(self, generation: Any) -> None:
        def train(model: tf.keras.Model, optimizer: Any = None) -> None:
            if optimizer is not None:
                model.compile(optimizer, "mse", metrics=["mae"])
            model.fit(X, Y, BATCH, verbose=0, shuffle=False)

        with keras_models.strategy().scope():
            model = keras_models.Kind(_built).compiled(generation.Adam(0.1))
        weights = model.get_weights()
        with ipu_strategy.IPUStrategy().scope():
            train(model)
            model.train_on_batch(X[:BATCH], Y[:BATCH])
            train(model, generation.SGD(0.1, momentum=0.5))
            model.evaluate(X, Y, BATCH, verbose=0)
        train(model)
        stock = keras_models.Kind(_built).compiled(generation.Adam(0.1))
        stock.set_weights(weights)
        train(stock)
        stock.train_on_batch(X[:BATCH], Y[:BATCH])
        train(stock, generation.SGD(0.1, momentum=0.5))
        train(stock)
        keras_models.assert_close(model.get_weights(), stock.get_weights())

    @pytest.mark.parametrize("extensions", [True, False])
    def test_a_strategy_for_another_device_is_refused(self, extensions: bool) -> None:
        config = IPUConfig()
        config.auto_select_ipus = [1, 1]
        config.configure_ipu_system()
        options = {"enable_keras_extensions": extensions}
        with ipu_strategy.IPUStrategy(**options).scope():
            model = _compiled()
        with ipu_strategy.IPUStrategy("/device:IPU:1", **options).scope():
            with pytest.raises(RuntimeError, match="Mixing different tf.distribute.Strategy obj"):
                model.fit(X, Y, BATCH, verbose=0)
            if extensions:
                with pytest.raises(RuntimeError, match="'mine' .* scope of an IPUStrategy for"):
                    model.compile("sgd", "mse")


class TestOptimizers:
    """Optimizers that a model is compiled with."""

    @pytest.mark.parametrize(
        "cls",
        [
            *_classes(tf.keras.optimizers, tf.keras.optimizers.Optimizer),
            *_classes(tf.keras.optimizers.legacy, tf.keras.optimizers.legacy.Optimizer),
        ],
        ids=lambda cls: f"{cls.__module__.split('.')[-2]}-{cls.__name__}",
    )
    def test_an_optimizer_made_outside_the_scope_is_refused(self, cls: type) -> None:
        optimizer = cls()
        with keras_models.strategy().scope():
            model = _built()
            if not isinstance(optimizer, tf.keras.optimizers.Optimizer):
                # It has no variables yet: they are made in the scope.
                model.compile(optimizer, "mse")
                return
            with pytest.raises(ValueError, match=f"The optimizer '{optimizer.name}'") as error:
                model.compile(optimizer, "mse")
        assert "the model 'mine'" in str(error.value)
        assert "'iteration'" in str(error.value) and "on /device:CPU:0" in str(error.value)
        assert "Make it inside `with strategy.scope():`" in str(error.value)

    def test_an_optimizer_without_variables_may_be_made_outside(self) -> None:
        optimizer = tf.keras.optimizers.legacy.Adam(0.1)
        with keras_models.strategy().scope():
            found = MLP.compiled(optimizer)
            found.fit(X, Y, BATCH, verbose=0, shuffle=False)
        stock = MLP.compiled(tf.keras.optimizers.legacy.Adam(0.1))
        stock.fit(X, Y, BATCH, verbose=0, shuffle=False)
        keras_models.assert_same_weights(found, stock)

    @pytest.mark.parametrize(
        "wrap",
        [
            tf.keras.mixed_precision.LossScaleOptimizer,
            CrossReplicaOptimizer,
            lambda optimizer: [optimizer],
        ],
    )
    def test_an_optimizer_around_one_made_outside_is_refused(
        self, wrap: Callable[[Any], Any]
    ) -> None:
        optimizer = wrap(tf.keras.optimizers.SGD())
        with keras_models.strategy().scope():
            with pytest.raises(ValueError, match="The optimizer '.*' .* was created inside a diff"):
                _built().compile(optimizer, "mse")

    def test_optimizer_of_a_model_on_host_is_refused(self) -> None:
        for optimizer in (tf.keras.optimizers.Adam(), tf.keras.optimizers.legacy.Adam()):
            used = _built()
            used.compile(optimizer, "mse")
            used.fit(X, Y, BATCH, verbose=0)
            with keras_models.strategy().scope():
                with pytest.raises(ValueError, match="The optimizer 'Adam'"):
                    _built().compile(optimizer, "mse")

    def test_optimizer_is_refused_with_stock_keras_on_device(self) -> None:
        optimizer = tf.keras.optimizers.Adam()
        with keras_models.strategy(enable_keras_extensions=False).scope():
            model = _built()
            model.compile(optimizer, "mse")
            with pytest.raises(tf.errors.InvalidArgumentError, match="of the Adam 'Adam' on /dev"):
                model.fit(X, Y, BATCH, verbose=0)

    @pytest.mark.parametrize("generation", [tf.keras.optimizers, tf.compat.v1.train])
    def test_variables_made_outside_are_refused(self, generation: Any) -> None:
        weights = tf.Variable([1.0, 2.0], name="weights")
        strategy = keras_models.strategy()
        with strategy.scope():
            make = getattr(generation, "Adam", None) or generation.AdamOptimizer
            optimizer = make()

            @tf.function(jit_compile=True, autograph=False)
            def step() -> None:
                optimizer.apply_gradients([(tf.ones([2]), weights)])

            with pytest.raises(ValueError, match="The variable 'weights'.*was made outside the sc"):
                strategy.run(step)


class TestOtherParts:
    """Metrics, losses and layers."""

    @pytest.mark.parametrize("argument", ["metrics", "weighted_metrics"])
    def test_a_metric_made_outside_the_scope_is_refused(self, argument: str) -> None:
        metric = tf.keras.metrics.MeanAbsoluteError("far")
        with keras_models.strategy().scope():
            model = _built()
            with pytest.raises(
                (ValueError, tf.errors.InvalidArgumentError), match="'far'"
            ) as error:
                model.compile("sgd", "mse", **{argument: [metric]})
                model.fit(X, Y, BATCH, verbose=0)
        assert "inside `with strategy.scope():`" in str(error.value)

    def test_metric_of_another_strategy_for_device_is_accepted(self) -> None:
        with keras_models.strategy().scope():
            metric = tf.keras.metrics.MeanAbsoluteError()
        with ipu_strategy.IPUStrategy().scope():
            model = _built()
            model.compile("sgd", "mse", metrics=[metric])
            model.fit(X, Y, BATCH, verbose=0)
            assert metric.result().numpy() > 0

    @pytest.mark.parametrize("nested", [False, True])
    def test_a_layer_built_outside_the_scope_is_refused(self, nested: bool) -> None:
        layer = _dense(2, name="far")
        layer.build([None, 3])
        part = tf.keras.Sequential([tf.keras.Input((3,)), layer]) if nested else layer
        with keras_models.strategy().scope():
            model = tf.keras.Sequential([tf.keras.Input((3,)), part])
            with pytest.raises(
                ValueError, match=r"The layer 'far' \(Dense\) of the model"
            ) as error:
                model.compile("sgd", "mse")
        # Not the values of its weights.
        assert "'kernel', 'bias'" in str(error.value) and "array" not in str(error.value)

    def test_built_layer_that_is_called_later(self) -> None:
        layer = _dense(2, name="far")
        layer.build([None, 3])

        class Own(tf.keras.Model):
            def call(self, inputs: tf.Tensor) -> tf.Tensor:
                return layer(inputs)

        with keras_models.strategy().scope():
            model = keras_models.Kind(Own).compiled()
            with pytest.raises(tf.errors.InvalidArgumentError, match="of the Dense 'far' on /dev"):
                model.predict(X, BATCH, verbose=0)

    def test_what_has_no_variables_yet(self) -> None:
        layers = [_dense(4), tf.keras.layers.Dropout(0.1), _dense(2)]
        loss = tf.keras.losses.MeanSquaredError()
        with keras_models.strategy().scope():
            model = tf.keras.Sequential(layers)
            model.compile("sgd", loss)
            model.fit(X, Y, BATCH, verbose=0)
        assert all(variable.device.endswith("IPU:0") for variable in model.variables)

    def test_preprocessing_layers_adapt_in_the_scope(self) -> None:
        stock = tf.keras.layers.Normalization()
        stock.adapt(X)
        for data in (X, tf.data.Dataset.from_tensor_slices(X).batch(5)):
            with keras_models.strategy().scope():
                layer = tf.keras.layers.Normalization()
                layer.adapt(data)
                words = tf.keras.layers.StringLookup()
                words.adapt(np.array(["a", "b", "a"]))
                model = tf.keras.Sequential([tf.keras.Input((3,)), layer, _dense(2)])
                model.compile("sgd", "mse")
                model.fit(X, Y, BATCH, verbose=0)
            keras_models.assert_close(layer.mean.numpy(), stock.mean.numpy())
            assert words.get_vocabulary() == ["[UNK]", "a", "b"]

    def test_datasets_are_read_on_the_device_after_that(self) -> None:
        strategy = keras_models.strategy()
        with strategy.scope():
            tf.keras.layers.Normalization().adapt(X)
            iterator = iter(tf.data.Dataset.range(4))
            step = tf.function(lambda: next(iterator), jit_compile=True)
            assert [int(strategy.run(step)) for _ in range(2)] == [0, 1]


def test_models_may_contain_models_of_the_scope() -> None:
    with keras_models.strategy().scope():
        inner = Subclass()
        model = tf.keras.Sequential([tf.keras.Input((3,)), inner])
        model.compile("sgd", "mse")
        model.fit(X, Y, BATCH, verbose=0)
