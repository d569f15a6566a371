"""Tests of capturing gradients in the middle of a model."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.ops import grad_util_ops
from tensorflow_ipu.ops.grad_util_ops import GradientCaptureContext, capture_upstream_gradients
from tests.support.programs import replicas

tf1 = tf.compat.v1
X = np.float32([1, 2, 3])


def model(x: tf.Tensor) -> tf.Tensor:
    """A loss through a capture, with the derivative 6 x^2 by the captured tensor."""
    hidden = capture_upstream_gradients(x * x, tag="hidden")
    return tf.reduce_sum(hidden * hidden) * 3


def captured_and_gradient(x: tf.Tensor) -> list[tf.Tensor]:
    """The gradient that a context captured, and the gradient of the input."""
    with GradientCaptureContext() as context:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = model(x)
        gradient = tape.gradient(loss, x)
    assert list(context.captured_gradients) == ["hidden"]
    return [*context.captured_gradients["hidden"], gradient]


def test_eager_gradients_are_captured():
    captured, gradient = captured_and_gradient(tf.constant(X))
    np.testing.assert_allclose(captured, 6 * X**2)
    np.testing.assert_allclose(gradient, 12 * X**3)


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_gradients_are_captured_in_a_program(count, in_session):
    results = replicas.run(count, lambda: captured_and_gradient(tf.constant(X)), in_session)
    np.testing.assert_allclose(results[0], [6 * X**2] * count)
    np.testing.assert_allclose(results[1], [12 * X**3] * count)


def test_gradients_of_a_graph_are_captured():
    def program(x):
        with GradientCaptureContext() as context:
            (gradient,) = tf.gradients(model(x), x)
        return *context.captured_gradients["hidden"], gradient

    with tf.Graph().as_default(), tf1.Session() as session:
        replicas.configure(1)
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(program, [tf.constant(X)])
        captured, gradient = session.run(launch)
    np.testing.assert_allclose(captured, 6 * X**2)
    np.testing.assert_allclose(gradient, 12 * X**3)


def test_captures_have_the_type_of_the_tensor():
    captured, _ = captured_and_gradient(tf.constant(X, tf.float16))
    assert captured.dtype == tf.float16


def test_structures_of_tensors_are_captured():
    x = {"a": tf.constant(1.0), "b": tf.constant(2.0)}
    with GradientCaptureContext() as context, tf.GradientTape() as tape:
        tape.watch(x)
        y = capture_upstream_gradients(x, tag="both")
        loss = y["a"] * 3 + y["b"] * y["b"]
    gradients = tape.gradient(loss, x)  # after the context was closed
    assert [value.numpy() for value in context.captured_gradients["both"]] == [3, 4]
    assert {key: value.numpy() for key, value in gradients.items()} == {"a": 3, "b": 4}


def test_a_tag_that_comes_again():
    x = tf.constant(2.0)
    with GradientCaptureContext() as context, tf.GradientTape() as tape:
        tape.watch(x)
        first = capture_upstream_gradients(x, "mine")
        loss = capture_upstream_gradients(first * 5, "mine") * 7
        with pytest.raises(ValueError, match="Gradient exists in the captured grads frame"):
            tape.gradient(loss, x)
    assert context.captured_gradients["mine"][0].numpy() == 7


def test_what_another_trace_captures_takes_the_place():
    context = GradientCaptureContext()

    @tf.function
    def step(x):
        with context, tf.GradientTape() as tape:
            tape.watch(x)
            loss = capture_upstream_gradients(x, "x") * 3
        tape.gradient(loss, x)
        return context.captured_gradients["x"]

    assert step(tf.constant(2.0))[0].numpy() == 3
    assert step(tf.constant([2.0]))[0].numpy() == 3


def test_the_innermost_context_captures():
    x = tf.constant(2.0)
    with GradientCaptureContext() as outer, tf.GradientTape() as tape:
        tape.watch(x)
        loss = capture_upstream_gradients(x, "x") * 3
        with GradientCaptureContext() as inner:
            tape.gradient(loss, x)
    assert outer.captured_gradients == {}
    assert inner.captured_gradients["x"][0].numpy() == 3


def test_gradients_need_a_context():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        (same,) = capture_upstream_gradients([x], "x")
        loss = same * 3
    assert loss.numpy() == 6
    with pytest.raises(RuntimeError, match="may only be used within the context of .*'x'"):
        tape.gradient(loss, x)
    assert grad_util_ops.capture_upstream_gradients([]) == []


def test_the_context_closes_after_an_error():
    with pytest.raises(RuntimeError, match="mine"), GradientCaptureContext() as context:
        raise RuntimeError("mine")
    test_gradients_need_a_context()
    assert context.captured_gradients == {}


def test_tag_has_to_be_a_string():
    with pytest.raises(TypeError, match="tag of captured gradients must be a string"):
        capture_upstream_gradients(tf.constant(1.0), tag=3)


@pytest.mark.parametrize("in_a_context", [False, True])
def test_saved_models_compute_gradients_and_capture_none(in_a_context, tmp_path):
    module = tf.Module()
    signature = [tf.TensorSpec([3], tf.float32)]
    module.loss = tf.function(model, input_signature=signature)
    with GradientCaptureContext() if in_a_context else contextlib.nullcontext() as context:
        tf.saved_model.save(module, str(tmp_path))
        x = tf.constant(X)
        loaded = tf.saved_model.load(str(tmp_path))
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loaded.loss(x)
        np.testing.assert_allclose(tape.gradient(loss, x), 12 * X**3)
    assert context is None or context.captured_gradients == {}
