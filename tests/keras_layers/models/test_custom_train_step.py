"""Models with a `train_step` of their own train as in stock Keras, on one and several replicas."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.optimizers import (
    CrossReplicaOptimizer,
    GradientAccumulationOptimizer,
)
from tests.support.models import keras_models
from tests.support.models.keras_models import BATCH, SAMPLES, FunctionalSubclass, Kind, X, Y

pytestmark = keras_models.KERAS_WARNINGS

RATE = 0.1
REPLICAS = [1, 2, 4]
WEIGHTS = np.linspace(0.5, 2.0, SAMPLES).astype(np.float32)


class Minimize(FunctionalSubclass):
    """A step like Keras's before `compute_loss`, as many models still have it."""

    def train_step(self, data: Any) -> Any:
        x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compiled_loss(y, predicted, sample_weight, self.losses)
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        self.compiled_metrics.update_state(y, predicted, sample_weight)
        return {metric.name: metric.result() for metric in self.metrics}


class OwnMetrics(FunctionalSubclass):
    """Has a loss, metrics and a counter of its own, and returns more than those."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = tf.keras.metrics.Mean("own_loss")
        self.count = tf.Variable(0.0, trainable=False)

    @property
    def metrics(self) -> list[Any]:
        return [self.mean]

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self(x, training=True) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        gradients = [tf.clip_by_value(gradient, -10.0, 10.0) for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.mean.update_state(loss)
        self.count.assign_add(1.0)  # nothing that is returned depends on it
        return {"own": self.mean.result(), "constant": 2.5, "first": {"value": loss}}


class InFunction(Minimize):
    """Has a step that is a `tf.function` already."""

    @tf.function
    def train_step(self, data: Any) -> Any:
        loss = tf.constant(0.0)
        if tf.reduce_sum(data[0]) < 1e6:
            loss += 1.0
        return {"steps": loss, **super().train_step(data)}


class SumsItself(FunctionalSubclass):
    """Adds up the gradients of replicas by hand."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        self.optimizer.apply_gradients(
            zip(gradients, self.trainable_variables), skip_gradients_aggregation=True
        )
        return {"loss": loss}


class Adversarial(tf.keras.Model):
    """Two models against each other, each with its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
        self.critic = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])

    def compile(self, generator_optimizer: Any, critic_optimizer: Any, **arguments: Any) -> None:
        super().compile(**arguments)
        self.generator_optimizer = generator_optimizer
        self.critic_optimizer = critic_optimizer
        self.critic_loss = tf.keras.metrics.Mean("critic_loss")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.critic(self.generator(inputs))

    def train_step(self, data: Any) -> Any:
        noise, real = data
        for _ in range(2):
            with tf.GradientTape() as tape:
                made, kept = self.critic(self.generator(noise)), self.critic(real)
                loss = tf.reduce_mean(tf.nn.softplus(made) + tf.nn.softplus(-kept))
            variables = self.critic.trainable_variables
            self.critic_optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.critic_loss.update_state(loss)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(-self.critic(self.generator(noise))))
        variables = self.generator.trainable_variables
        self.generator_optimizer.minimize(loss, variables, tape=tape)
        return {"critic": self.critic_loss.result(), "generator": loss}


def _sgd() -> Any:
    return tf.keras.optimizers.SGD(RATE)


def _fit(model: tf.keras.Model, batch_size: int = BATCH, **arguments: Any) -> dict[str, Any]:
    data = keras_models.dataset(batch_size=batch_size)
    return model.fit(data, **{"epochs": 2, "verbose": 0, **arguments}).history


def _trained(
    build: Callable[[], tf.keras.Model],
    replicas: int = 0,
    optimizer: Callable[[float], Any] = tf.keras.optimizers.SGD,
    batch_size: int | None = None,
    **compile_with: Any,
) -> tuple[tf.keras.Model, dict[str, Any]]:
    """Trains a model with stock Keras, or on replicas that share its batches and learning rate.

    Gradients of replicas are summed, and losses are means over a batch.
    """
    if not replicas:
        model = Kind(build).compiled(lambda: optimizer(RATE), **compile_with)
        return model, _fit(model)
    with keras_models.strategy(replicas, enable_custom_train_step=True).scope():
        model = Kind(build).compiled(lambda: optimizer(RATE / replicas), **compile_with)
        return model, _fit(model, batch_size or BATCH // replicas)


@pytest.mark.parametrize("build", [Minimize, OwnMetrics, InFunction, SumsItself])
@pytest.mark.parametrize("replicas", REPLICAS)
def test_equals_stock_keras_on_batch_of_all_replicas(
    build: type[tf.keras.Model], replicas: int
) -> None:
    expected, history = _trained(build)
    found, logs = _trained(build, replicas, steps_per_execution=3)
    keras_models.assert_close(
        [v.numpy() for v in found.trainable_variables],
        [v.numpy() for v in expected.trainable_variables],
    )
    assert list(logs) == list(history)
    if replicas == 1:
        keras_models.assert_close(logs, history)
    if build is OwnMetrics:
        assert found.count.numpy() == expected.count.numpy()


def test_hooks_and_logs_are_those_of_stock_keras() -> None:
    kind = Kind(Minimize, metrics=("mae", "accuracy"))
    weights = np.arange(SAMPLES, dtype=np.float32)

    def data() -> Any:
        return {"x": X, "y": Y, "sample_weight": weights, "batch_size": BATCH}

    expected = keras_models.train(kind, data=data, validation_data=(X, Y))
    scope = keras_models.strategy(enable_custom_train_step=True).scope()
    found = keras_models.train(kind, scope, data=data, validation_data=(X, Y))
    keras_models.assert_equal(found, expected)


@pytest.mark.parametrize("replicas", [2, 4])
def test_sample_weights_are_right_on_replicas(replicas: int) -> None:
    def trained(model: tf.keras.Model, batch_size: int) -> list[np.ndarray]:
        data = tf.data.Dataset.from_tensor_slices((X, Y, WEIGHTS)).batch(batch_size, True)
        model.fit(data, epochs=2, verbose=0, class_weight=None)
        return model.get_weights()

    expected = trained(Kind(Minimize).compiled(_sgd), BATCH)
    with keras_models.strategy(replicas, enable_custom_train_step=True).scope():
        model = Kind(Minimize).compiled(lambda: tf.keras.optimizers.SGD(RATE / replicas))
        keras_models.assert_close(trained(model, BATCH // replicas), expected)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("replicas", REPLICAS)
def test_a_step_with_two_optimizers_equals_stock_keras(replicas: int, legacy: bool) -> None:
    optimizers = tf.keras.optimizers.legacy if legacy else tf.keras.optimizers

    def trained(model: tf.keras.Model, count: int = 1, **compile_with: Any) -> dict[str, Any]:
        model.compile(
            optimizers.SGD(RATE / count, momentum=0.5),
            optimizers.SGD(RATE / count),
            **compile_with,
        )
        return _fit(model, BATCH // count)

    keras_models.seed()
    expected = Adversarial()
    history = trained(expected)
    with keras_models.strategy(replicas, enable_custom_train_step=True).scope():
        keras_models.seed()
        found = Adversarial()
        logs = trained(found, replicas, steps_per_execution=2)
    keras_models.assert_close(
        [v.numpy() for v in found.trainable_variables],
        [v.numpy() for v in expected.trainable_variables],
    )
    assert list(logs) == list(history)
    if replicas == 1:
        keras_models.assert_close(logs, history)


def test_means_over_replicas_and_accumulated_gradients() -> None:
    def averaging(rate: float) -> Any:
        return CrossReplicaOptimizer(tf.keras.optimizers.SGD(2 * rate))

    def accumulating(rate: float) -> Any:
        return GradientAccumulationOptimizer(averaging(rate), 2, reduction_method="mean")

    expected, _ = _trained(Minimize)
    averaged, _ = _trained(Minimize, 2, averaging)
    keras_models.assert_close(averaged.get_weights(), expected.get_weights())
    accumulated, _ = _trained(Minimize, 2, accumulating, batch_size=1, steps_per_execution=6)
    keras_models.assert_close(accumulated.get_weights(), expected.get_weights())


def test_batches_by_hand_equal_stock_keras() -> None:
    def trained(model: tf.keras.Model) -> Any:
        logs = [model.train_on_batch(X[:BATCH], Y[:BATCH], return_dict=True) for _ in range(2)]
        return logs, model.get_weights()

    expected = trained(Kind(Minimize).compiled(_sgd))
    with keras_models.strategy().scope():
        keras_models.assert_close(trained(Kind(Minimize).compiled(_sgd)), expected)


class TestOption:
    """Models that may have their own step."""

    def test_is_off_at_first(self) -> None:
        with keras_models.strategy().scope():
            model = Kind(Minimize).compiled(_sgd)
            with pytest.raises(RuntimeError, match="`train_step` .* has been overridden") as caught:
                _fit(model)
            for advice in (
                "model.set_custom_train_step()",
                "IPUStrategy(enable_custom_train_step=True)",
                "IPUStrategy(enable_keras_extensions=False)",
            ):
                assert advice in str(caught.value)
            model.set_custom_train_step()
            _fit(model, epochs=1)
            model.set_custom_train_step(False)
            with pytest.raises(RuntimeError, match="has been overridden"):
                _fit(model)

    def test_of_model_counts_more_than_that_of_strategy(self) -> None:
        strategy = keras_models.strategy(enable_custom_train_step=True)
        assert strategy.enable_custom_train_step
        with strategy.scope():
            model = Kind(Minimize).compiled(_sgd)
            model.set_custom_train_step(False)
            with pytest.raises(RuntimeError, match="has been overridden"):
                _fit(model)

    def test_a_step_of_one_model_only_is_allowed(self) -> None:
        with keras_models.strategy().scope():
            model = Kind(FunctionalSubclass).compiled(_sgd)
            model.train_step = lambda data: {"own": tf.reduce_sum(data[0])}
            with pytest.raises(RuntimeError, match="has been overridden"):
                _fit(model)
            model.set_custom_train_step()
            assert list(_fit(model, epochs=1)) == ["own"]

    def test_other_methods_are_refused_still(self) -> None:
        class Own(Minimize):
            def make_train_function(self, force: bool = False) -> Any:
                return super().make_train_function(force)

        with keras_models.strategy(enable_custom_train_step=True).scope():
            with pytest.raises(RuntimeError, match="`make_train_function` .* has been overridden"):
                _fit(Kind(Own).compiled(_sgd))

    def test_gradient_accumulation_is_refused_by_name(self) -> None:
        with keras_models.strategy(enable_custom_train_step=True).scope():
            model = Kind(Minimize).compiled(_sgd, steps_per_execution=2)
            model.set_gradient_accumulation_options(2)
            with pytest.raises(RuntimeError, match="gradient_accumulation_steps_per_replica=2 has"):
                _fit(model)

    def test_pipelines_have_no_place_for_it(self) -> None:
        class Own(tf.keras.Sequential):
            def train_step(self, data: Any) -> Any:
                return super().train_step(data)

        with keras_models.strategy(2, enable_custom_train_step=True).scope():
            layers = [tf.keras.Input((3,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(2)]
            model = Kind(lambda: Own(layers)).compiled(_sgd)
            model.set_pipeline_stage_assignment([0, 1])
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
            with pytest.raises(RuntimeError, match="has been overridden.*pipelined model"):
                _fit(model)

    def test_logs_must_be_a_dict(self) -> None:
        class Own(FunctionalSubclass):
            def train_step(self, data: Any) -> Any:
                return tf.reduce_sum(data[0])

        with keras_models.strategy(enable_custom_train_step=True).scope():
            with pytest.raises(ValueError, match=r"train_step\(\) .* must return a dict"):
                _fit(Kind(Own).compiled(_sgd))


class TestTransformers:
    """Models of Hugging Face's library, which all have a step of their own."""

    @pytest.fixture(autouse=True)
    def transformers(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        # Importing it chooses a Keras for the process, which has been chosen here.
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", os.environ.get("TF_USE_LEGACY_KERAS", "0"))
        monkeypatch.setenv("USE_TORCH", "0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield pytest.importorskip("transformers")

    @pytest.mark.parametrize("own_loss", [True, False])
    @pytest.mark.parametrize("replicas", [1, 2])
    def test_bert_trains_as_in_stock_keras(
        self, transformers: Any, replicas: int, own_loss: bool
    ) -> None:
        config = transformers.BertConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=40,
            max_position_embeddings=8,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=3,
        )
        tokens = {"input_ids": keras_models.labels(50, SAMPLES, 6)}
        answers = keras_models.labels(3, SAMPLES)

        def trained(count: int, weights: list[np.ndarray] | None) -> Any:
            model = transformers.TFBertForSequenceClassification(config)
            model(tokens)
            if weights is not None:
                model.set_weights(weights)
            start = model.get_weights()
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            arguments = {} if own_loss else {"loss": loss, "metrics": ["accuracy"]}
            model.compile(tf.keras.optimizers.SGD(RATE / count), **arguments)
            data = {**tokens, "labels": answers} if own_loss else (tokens, answers)
            batches = tf.data.Dataset.from_tensor_slices(data).batch(BATCH // count, True)
            history = model.fit(batches, verbose=0).history
            return start, model.get_weights(), history, model.predict(tokens, BATCH, verbose=0)

        start, expected, history, logits = trained(1, None)
        with keras_models.strategy(replicas, enable_custom_train_step=True).scope():
            _, found, logs, outputs = trained(replicas, start)
        keras_models.assert_close(found, expected)
        assert max(np.abs(a - b).max() for a, b in zip(found, start)) > 1e-3
        assert list(logs) == list(history)
        if replicas == 1:
            keras_models.assert_close(logs, history)
        keras_models.assert_close(outputs.logits, logits.logits)
