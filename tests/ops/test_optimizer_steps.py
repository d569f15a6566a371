"""One step of any optimizer in two halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.ops import optimizer_steps

keras = tf.keras
FAMILIES = {"new": keras.optimizers, "legacy": keras.optimizers.legacy}


def _scaled(family: str) -> Any:
    return keras.mixed_precision.LossScaleOptimizer(
        FAMILIES[family].SGD(0.5), dynamic=False, initial_scale=2.0**20
    )


def _gradient(optimizer: Any, tape: str) -> float:
    """Returns the derivative of `2^-30 w^2` at 3, which float16 loses unless it is scaled."""
    weight = tf.Variable(3.0)
    small = 2.0**-30

    def loss() -> tf.Tensor:
        return tf.cast(tf.cast(weight * weight, tf.float16), tf.float32) * small

    @tf.function
    def in_graph() -> tf.Tensor:
        ((gradient, variable),) = optimizer_steps.compute_gradients(optimizer, loss(), [weight])
        assert variable is weight
        return gradient

    if tape == "none":
        return float(in_graph())
    with tf.GradientTape() as recorded:
        value = loss()
        if tape == "recording":
            pairs = optimizer_steps.compute_gradients(optimizer, value, [weight], recorded)
    if tape == "closed":
        pairs = optimizer_steps.compute_gradients(optimizer, value, [weight], recorded)
    ((gradient, _),) = pairs
    return float(gradient)


@pytest.mark.parametrize("tape", ["none", "recording", "closed"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_the_optimizer_scales_the_loss(family: str, tape: str) -> None:
    assert _gradient(_scaled(family), tape) == pytest.approx(6 * 2.0**-30)
    assert _gradient(FAMILIES[family].SGD(), tape) == 0  # underflow


def test_an_optimizer_of_another_kind_gets_plain_gradients() -> None:
    class Own:
        def apply_gradients(self, pairs: Any) -> None: ...

    weight = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(weight * weight)
    ((gradient, _),) = optimizer_steps.compute_gradients(Own(), value, [weight], tape)
    np.testing.assert_allclose(gradient, [2, 4])


def test_captured_gradients_go_to_those_that_take_them() -> None:
    class Taking:
        def apply_gradients(self, pairs: Any, name: str, captured_grads: Any = None) -> Any:
            return pairs, name, captured_grads

    class Other:
        def apply_gradients(self, pairs: Any, name: str) -> Any:
            return pairs, name

    captured = {"a": 1}
    assert optimizer_steps.takes_captured_gradients(Taking())
    assert not optimizer_steps.takes_captured_gradients(Other())
    apply = optimizer_steps.apply_gradients
    assert apply(Taking(), [], captured, "n") == ([], "n", captured)
    assert apply(Taking(), [], captured, name="n", captured_grads=2) == ([], "n", 2)
    assert apply(Taking(), [], {}, "n") == ([], "n", None)
    assert apply(Other(), [], captured, name="n") == ([], "n")
