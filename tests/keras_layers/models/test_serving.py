"""Exported Keras models give the results of `predict`, on the IPU and in stock TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function as legacy_function

from tensorflow_ipu import serving
from tensorflow_ipu.api import keras
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache, store
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.programs.serving import applications, assert_stock, call_signatures

layers = tf.keras.layers
BATCH = 2
STEPS = 2
_GENERATOR = np.random.default_rng(3)
X = _GENERATOR.normal(size=(2 * BATCH * STEPS, 5)).astype(np.float32)
Z = _GENERATOR.normal(size=(2 * BATCH * STEPS, 3)).astype(np.float32)
WORDS = np.array([" ".join(map(str, row)) for row in X])


def strategy(ipus: int = 1) -> ipu_strategy.IPUStrategy:
    """Returns the strategy for a new device."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu_strategy.IPUStrategy()


def sequential() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            layers.Dense(4, activation="relu", input_shape=(5,)),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )


def recurrent() -> tf.keras.Model:
    return tf.keras.Sequential(
        [layers.Reshape((5, 1), input_shape=(5,)), layers.LSTM(4), layers.Dense(2)]
    )


def two_of_each() -> tf.keras.Model:
    first, second = tf.keras.Input((5,), name="first"), tf.keras.Input((3,), name="second")
    hidden = layers.Dense(4, activation="tanh")(first)
    joined = layers.Concatenate()([hidden, second])
    return tf.keras.Model([first, second], [layers.Dense(2)(joined), joined])


def dicts() -> tf.keras.Model:
    inputs = {"first": tf.keras.Input((5,)), "second": tf.keras.Input((3,))}
    total = layers.Dense(3)(inputs["first"]) + inputs["second"]
    return tf.keras.Model(inputs, {"total": total, "positive": layers.ReLU()(total)})


class Subclass(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(4)

    def call(self, x: tf.Tensor, training: bool = False) -> Any:
        return (-1.0 if training else 1.0) * self.dense(x)


def pipelined() -> tf.keras.Model:
    first, second = tf.keras.Input((5,), name="first"), tf.keras.Input((3,), name="second")
    with keras.PipelineStage(0):
        hidden = layers.Dense(4, activation="tanh")(first)
    with keras.PipelineStage(1):
        joined = layers.Concatenate()([hidden, second])
        outputs = [layers.Dense(2)(joined), joined]
    return tf.keras.Model([first, second], outputs)


class Kind(NamedTuple):
    """A model and its inputs."""

    build: Callable[[], tf.keras.Model]
    inputs: dict[str, np.ndarray]
    takes_a_tuple: bool = False
    ipus: int = 1

    @property
    def dataset(self) -> tf.data.Dataset:
        """Batches as `predict` takes them."""
        inputs: Any = self.inputs
        if self.build is not dicts:
            (*values,) = self.inputs.values()
            inputs = (tuple(values),) if self.takes_a_tuple else values[0]
        dataset = tf.data.Dataset.from_tensor_slices(inputs)
        return dataset.batch(BATCH, drop_remainder=True)

    @property
    def first_batch(self) -> dict[str, tf.Tensor]:
        """Requests to a served model."""
        return {name: tf.constant(value[:BATCH]) for name, value in self.inputs.items()}

    def make(self, steps: int = STEPS) -> tf.keras.Model:
        """Returns a compiled model whose variables have other values than the initial ones."""
        model = self.build()
        model.compile("sgd", "mse", steps_per_execution=steps)
        model.predict(self.dataset, verbose=0)
        generator = np.random.default_rng(1)
        weights = [generator.uniform(0.2, 1, value.shape) for value in model.get_weights()]
        model.set_weights(weights)
        return model

    def predicted(self, model: tf.keras.Model) -> dict[str, np.ndarray]:
        """Returns the results of `predict` for the first batch, by the names of the signature."""
        outputs = model.predict(self.dataset, verbose=0)
        if not isinstance(outputs, dict):
            flat = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            outputs = {f"output_{index}": value for index, value in enumerate(flat)}
        return {name: value[:BATCH] for name, value in outputs.items()}


TWO = {"first": X, "second": Z}
KINDS = {
    "sequential": Kind(sequential, {"dense_input": X}),
    "recurrent": Kind(recurrent, {"reshape_input": X}),
    "two of each": Kind(two_of_each, TWO, takes_a_tuple=True),
    "dicts": Kind(dicts, TWO),
    "subclass": Kind(Subclass, {"input_1": X}),
    "pipelined": Kind(pipelined, TWO, takes_a_tuple=True, ipus=2),
}


def assert_all_close(got: dict[str, Any], want: dict[str, np.ndarray]) -> None:
    assert set(got) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


def load(export_dir: Path) -> Any:
    return tf.saved_model.load(str(export_dir)).signatures["serving_default"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_export_answers_as_predict(tmp_path: Path, kind: Kind) -> None:
    with strategy(kind.ipus).scope():
        model = kind.make()
        want = kind.predicted(model)
        compiled = len(cache.executables())
        function = model.export_for_ipu_serving(tmp_path / "model", batch_size=BATCH)
        program = cache.executables()[compiled]
    assert_all_close(function(**kind.first_batch), want)
    assert_all_close(load(tmp_path / "model")(**kind.first_batch), want)
    assert_stock(tmp_path / "model")
    (application,) = applications(tmp_path / "model")
    assert store.load(application)[0] == store.describe(program)
    runs = {record.type: record.runs for record in program.ops}
    assert runs["IpuInfeedDequeue"] == runs["IpuOutfeedEnqueue"] == STEPS
    assert (program.pipeline is not None) == (kind.build is pipelined)


@pytest.mark.parametrize("is_bare", [False, True], ids=["plugin", "stock"])
def test_exported_models_run_elsewhere(run_python: Any, tmp_path: Path, is_bare: bool) -> None:
    inputs, expected = {}, {}
    for name in ("sequential", "two of each", "pipelined"):
        kind = KINDS[name]
        export_dir = tmp_path / name.replace(" ", "_")
        with strategy(kind.ipus).scope():
            model = kind.make()
            expected[export_dir] = kind.predicted(model)
            serving.export_keras(model, export_dir, BATCH)
        inputs[export_dir] = {key: value[:BATCH] for key, value in kind.inputs.items()}
    outputs = call_signatures(run_python, inputs, tmp_path / "bare" if is_bare else None)
    for export_dir, want in expected.items():
        assert_all_close(outputs[export_dir], want)


def test_an_export_runs_on_the_device(tmp_path: Path) -> None:
    kind = KINDS["two of each"]
    device = strategy()
    with device.scope():
        model = kind.make()
        want = kind.predicted(model)
        model.export_for_ipu_serving(tmp_path / "model", batch_size=BATCH)
        assert_all_close(device.run(load(tmp_path / "model"), kwargs=kind.first_batch), want)
    assert cache.executables()[-1].launches == 1


def test_host_steps_and_names_are_exported(tmp_path: Path) -> None:
    kind = KINDS["two of each"]

    def preprocessing_step(text: tf.Tensor, second: tf.Tensor) -> Any:
        numbers = tf.strings.to_number(tf.strings.split(text, " ").to_tensor())
        return {"second": tf.cast(second, tf.float32), "first": tf.reshape(numbers, [BATCH, 5])}

    with strategy().scope():
        model = kind.make()
        want = kind.predicted(model)
        function = model.export_for_ipu_serving(
            tmp_path / "model",
            BATCH,
            ["sum", "total"],
            preprocessing_step,
            [tf.TensorSpec([BATCH], tf.string), tf.TensorSpec([BATCH, 3], tf.float64)],
            lambda outputs, joined: (tf.reduce_sum(outputs, 1), tf.reduce_sum(joined)),
        )
    request = {"text": tf.constant(WORDS[:BATCH]), "second": tf.constant(Z[:BATCH], tf.float64)}
    expected = {"sum": want["output_0"].sum(1), "total": want["output_1"].sum()}
    assert_all_close(function(**request), expected)
    assert_all_close(load(tmp_path / "model")(**request), expected)


def test_an_overridden_predict_step_is_exported(tmp_path: Path) -> None:
    class Doubling(tf.keras.Sequential):
        def predict_step(self, data: Any) -> Any:
            return 2 * super().predict_step(data)

    with strategy().scope():
        model = Doubling([layers.Dense(2, input_shape=(5,))])
        model.export_for_ipu_serving(tmp_path / "model", batch_size=BATCH)
        plain = model(X[:BATCH])
    got = load(tmp_path / "model")(dense_input=tf.constant(X[:BATCH]))
    assert_all_close(got, {"output_0": 2 * plain.numpy()})


class TestBatchSize:
    """Where the first dimension comes from."""

    @staticmethod
    def _model(**arguments: Any) -> tf.keras.Model:
        return tf.keras.Sequential([tf.keras.Input((5,), **arguments), layers.Dense(2)])

    @pytest.mark.parametrize(
        ("built_with", "given", "expected"), [(None, 3, 3), (4, None, 4), (4, 3, 3)]
    )
    def test_batch_size_is_given_or_that_of_model(
        self, tmp_path: Path, built_with: Any, given: Any, expected: int
    ) -> None:
        with strategy().scope():
            model = self._model(batch_size=built_with, name="x")
            model.export_for_ipu_serving(tmp_path / "model", batch_size=given)
        (spec,) = load(tmp_path / "model").structured_input_signature[1].values()
        assert spec.shape == [expected, 5]

    def test_an_unknown_batch_size_is_refused(self, tmp_path: Path) -> None:
        with strategy().scope(), pytest.raises(ValueError, match="unknown dimensions: .None, 5."):
            self._model().export_for_ipu_serving(tmp_path / "model")

    def test_other_unknown_dimensions_are_refused(self, tmp_path: Path) -> None:
        with strategy().scope():
            model = tf.keras.Sequential([layers.Conv1D(2, 2, input_shape=(None, 3))])
            with pytest.raises(ValueError, match="unknown dimensions: .2, None, 3."):
                model.export_for_ipu_serving(tmp_path / "model", batch_size=2)

    @pytest.mark.parametrize("batch_size", [0, -2, True, 1.5, "2"])
    def test_a_wrong_batch_size_is_refused(self, tmp_path: Path, batch_size: Any) -> None:
        with strategy().scope(), pytest.raises(ValueError, match="batch_size must be a positive"):
            self._model().export_for_ipu_serving(tmp_path / "model", batch_size=batch_size)

    def test_a_model_that_is_not_built_is_refused(self, tmp_path: Path) -> None:
        with strategy().scope(), pytest.raises(ValueError, match="has never been called"):
            Subclass().export_for_ipu_serving(tmp_path / "model", batch_size=2)


def two_stages() -> tf.keras.Model:
    x = tf.keras.Input((5,))
    with keras.PipelineStage(0):
        hidden = layers.Dense(4, activation="tanh")(x)
    with keras.PipelineStage(1):
        return tf.keras.Model(x, layers.Dense(2)(hidden))


class TestInAStrategy:
    @pytest.mark.parametrize("build", [sequential, two_stages], ids=lambda build: build.__name__)
    def test_it_runs_as_a_program_of_its_own(self, tmp_path: Path, build: Any) -> None:
        device = strategy(2)
        with device.scope():
            model = build()
            model.compile(steps_per_execution=STEPS)
            function = model.export_for_ipu_serving(tmp_path / "model", BATCH)
            want = model.predict(X, batch_size=BATCH)[:BATCH]
        signature = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
        (name,) = (spec.name.split(":")[0] for spec in signature.inputs)
        other = ipu_strategy.IPUStrategy()
        with other.scope():
            for outputs in (
                other.run(function, args=(X[:BATCH],)),
                other.run(function, kwargs={name: X[:BATCH]}),
                other.run(signature, kwargs={name: X[:BATCH]}),
            ):
                (output,) = outputs.values()
                np.testing.assert_allclose(output, want, rtol=1e-4, atol=1e-5)

    def test_layers_may_call_functions_of_tensorflow_1(self, tmp_path: Path) -> None:
        @legacy_function.Defun(tf.float32)
        def doubled(x: tf.Tensor) -> tf.Tensor:
            return 2.0 * x

        def call(x: tf.Tensor) -> tf.Tensor:
            return tf.raw_ops.StatefulPartitionedCall(args=[x], Tout=[tf.float32], f=doubled)[0]

        with strategy().scope():
            model = tf.keras.Sequential([layers.Dense(2, input_shape=(5,)), layers.Lambda(call)])
            function = model.export_for_ipu_serving(tmp_path / "model", BATCH)
            want = 2 * (X[:BATCH] @ model.get_weights()[0])
        (output,) = function(X[:BATCH]).values()
        np.testing.assert_allclose(output, want, rtol=1e-5, atol=1e-6)


class TestErrors:
    """Mistakes."""

    def test_a_directory_that_is_not_empty_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with strategy().scope():
            model = sequential()
            with pytest.raises(ValueError, match=f'Directory "{tmp_path}" is not empty.'):
                model.export_for_ipu_serving(tmp_path, batch_size=2)
            model.export_for_ipu_serving(tmp_path, batch_size=2, purge_export_dir=True)
        assert not (tmp_path / "file").exists()

    @pytest.mark.parametrize("enabled", [None, False], ids=["outside", "extensions off"])
    def test_a_model_of_stock_keras_is_refused(self, tmp_path: Path, enabled: Any) -> None:
        plain = contextlib.nullcontext()
        if enabled is not None:
            plain = ipu_strategy.IPUStrategy(enable_keras_extensions=enabled).scope()
        with plain:
            model = sequential()
            with pytest.raises(ValueError, match="was not created inside an IPU strategy"):
                serving.export_keras(model, tmp_path, batch_size=2)

    def test_a_wrong_number_of_output_names_is_refused(self, tmp_path: Path) -> None:
        with strategy().scope(), pytest.raises(ValueError, match="each of the 1 outputs"):
            sequential().export_for_ipu_serving(tmp_path, BATCH, output_names=["a", "b"])

    def test_preprocessing_that_does_not_fit(self, tmp_path: Path) -> None:
        with strategy().scope(), pytest.raises(ValueError, match="predict_step must fit together"):
            sequential().export_for_ipu_serving(
                tmp_path,
                BATCH,
                preprocessing_step=tf.function(
                    lambda x: (x, x), input_signature=[tf.TensorSpec([BATCH, 5], tf.float32)]
                ),
            )

    def test_unsupported_types_are_refused(self, tmp_path: Path) -> None:
        with strategy().scope():
            model = tf.keras.Sequential([tf.keras.Input((5,), dtype=tf.float64), layers.Dense(2)])
            with pytest.raises(TypeError, match="Unsupported data type float64 of input 0"):
                model.export_for_ipu_serving(tmp_path, BATCH)

    def test_models_that_run_eagerly_are_refused(self, tmp_path: Path) -> None:
        with strategy().scope():
            model = sequential()
            model.compile(run_eagerly=True)
            with pytest.raises(RuntimeError, match="cannot run eagerly when using `IPUStrategy`"):
                model.export_for_ipu_serving(tmp_path, BATCH)

    def test_steps_that_do_not_fit_the_schedule(self, tmp_path: Path) -> None:
        with strategy(2).scope():
            model = KINDS["pipelined"].build()
            model.compile(steps_per_execution=3)
            with pytest.raises(tf.errors.FailedPreconditionError, match="must be a multiple of 2"):
                model.export_for_ipu_serving(tmp_path, BATCH)
