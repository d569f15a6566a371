"""Captured gradients that an optimizer gets in `fit`, against derivatives by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_outfeed_queue
from tensorflow_ipu.keras_layers.layers import capture
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tests.support.models import keras_models, keras_pipelines

pytestmark = keras_models.KERAS_WARNINGS
Upstream = capture.CaptureUpstreamGradients
STEPS = 4


def _optimizer(base: Any, queue: Any, calls: list[Any], by_property: bool) -> Any:
    class Sending(base):  # type: ignore[misc]
        """Sends captured gradients to the host, once for each program."""

        def _send(self, captured: Any) -> None:
            calls.append(list(captured or {}))
            if captured and not queue.enqueued:
                queue.enqueue(captured)

    class ByProperty(Sending):
        supports_captured_grads = True

        def apply_gradients(self, pairs: Any, captured_grads: Any = None, **named: Any) -> Any:
            self._send(captured_grads)
            return super().apply_gradients(pairs, **named)

    class ByArgument(Sending):
        def apply_gradients(self, pairs: Any, *, captured_grads: Any = None, **named: Any) -> Any:
            self._send(captured_grads)
            return super().apply_gradients(pairs, **named)

    return (ByProperty if by_property else ByArgument)(0.0)


def _derivatives(model: Any, layers: tuple[str, ...]) -> list[list[np.ndarray]]:
    """Returns the derivatives by the outputs of layers, for each step and layer."""
    x, y = keras_pipelines.data(STEPS)
    found = []
    for rows, target in zip(np.split(x, STEPS), np.split(y, STEPS)):
        value, seen = tf.constant(rows), []
        with tf.GradientTape(persistent=True) as tape:
            for layer in model.layers[1:]:
                value = layer.layer(value) if isinstance(layer, Upstream) else layer(value)
                tape.watch(value)
                seen.append(value)
            loss = model.compute_loss(None, tf.constant(target), value)
        names = [layer.name for layer in model.layers[1:]]
        found.append([tape.gradient(loss, seen[names.index(name)]).numpy() for name in layers])
    return found


@pytest.mark.parametrize("base", [tf.keras.optimizers.SGD, tf.keras.optimizers.legacy.SGD])
@pytest.mark.parametrize("by_property", [True, False])
def test_the_step_is_traced_once(base: Any, by_property: bool) -> None:
    queue = ipu_outfeed_queue.IPUOutfeedQueue()
    calls: list[Any] = []
    x, y = keras_pipelines.data(STEPS)
    with keras_pipelines.strategy(1).scope():
        inputs = tf.keras.Input([keras_pipelines.FEATURES], keras_pipelines.BATCH)
        hidden = Upstream(keras_pipelines.dense(5, 1), tag="hidden", name="hidden")(inputs)
        outputs = keras_pipelines.dense(keras_pipelines.OUTPUTS, 2)(hidden)
        model = tf.keras.Model(inputs, outputs)
        model.compile(
            _optimizer(base, queue, calls, by_property), "mse", ["mae"], steps_per_execution=2
        )
        model.fit(x, y, keras_pipelines.BATCH, verbose=0, shuffle=False)
        assert calls == [["hidden"]]
        captured = queue.dequeue()["hidden"][0].numpy()
    expected = [step[0] for step in _derivatives(model, ("hidden",))]
    np.testing.assert_allclose(captured, expected, 1e-5, 1e-7)


@pytest.mark.parametrize("accumulate", [True, False, None])
def test_in_pipeline_they_are_sums_if_asked_for(accumulate: bool | None) -> None:
    queue = ipu_outfeed_queue.IPUOutfeedQueue()
    calls: list[Any] = []
    x, y = keras_pipelines.data(STEPS)
    with keras_pipelines.strategy(2).scope():
        inputs = tf.keras.Input([keras_pipelines.FEATURES], keras_pipelines.BATCH)
        with PipelineStage(0):
            first = Upstream(keras_pipelines.dense(5, 1), tag="z", name="first")(inputs)
        with PipelineStage(1):
            second = Upstream(keras_pipelines.dense(4, 2), tag="a", name="second")(first)
            outputs = keras_pipelines.dense(keras_pipelines.OUTPUTS, 3)(second)
        model = tf.keras.Model(inputs, outputs)
        optimizer = _optimizer(tf.keras.optimizers.SGD, queue, calls, True)
        model.compile(optimizer, "mse", steps_per_execution=STEPS)
        options = (
            {} if accumulate is None else {"gradient_accumulation_for_captured_grads": accumulate}
        )
        model.set_pipelining_options(STEPS, **options)
        model.fit(x, y, keras_pipelines.BATCH, verbose=0, shuffle=False)
        assert calls == [["z", "a"]]  # in the order of the stages
        captured = queue.dequeue()
    expected = _derivatives(model, ("first", "second"))
    for index, tag in enumerate(("z", "a")):
        of_layer = [step[index] for step in expected]
        wanted = sum(of_layer) if accumulate else of_layer[-1]
        np.testing.assert_allclose(captured[tag][0].numpy(), [wanted], 1e-5, 1e-7)


def test_optimizer_may_refuse_them() -> None:
    class Not(tf.keras.optimizers.SGD):  # type: ignore[misc]
        supports_captured_grads = False

        def apply_gradients(self, pairs: Any, captured_grads: Any = None, **named: Any) -> Any:
            assert captured_grads is None
            return super().apply_gradients(pairs, **named)

    x, y = keras_pipelines.data(1)
    with keras_pipelines.strategy(1).scope():
        dense = keras_pipelines.dense(keras_pipelines.OUTPUTS, 1)
        model = tf.keras.Sequential([Upstream(dense)])
        model.compile(Not(0.1), "mse")
        model.fit(x, y, keras_pipelines.BATCH, verbose=0)
