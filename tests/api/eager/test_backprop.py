"""Contexts and tapes that capture gradients, in and out of outlined functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.api.eager.backprop import GradientCaptureContext, GradientCaptureTape
from tensorflow_ipu.ops.functional_ops import outlined_function
from tensorflow_ipu.ops.grad_util_ops import capture_upstream_gradients
from tests.support.programs import replicas

X = np.float32([1, 2, 3])


def _plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


each_form = pytest.mark.parametrize("form", [_plainly, outlined_function])


def _cube(x: tf.Tensor) -> tf.Tensor:
    """A loss through a capture, with the derivative 6 x^2 by the captured tensor."""
    hidden = capture_upstream_gradients(x * x, tag="hidden")
    return tf.reduce_sum(hidden * hidden) * 3


def _assert_captured(results: Any, count: int = 1) -> None:
    np.testing.assert_allclose(results[0], [6 * X**2] * count)
    np.testing.assert_allclose(results[1], [12 * X**3] * count)


def test_classes_are_public_in_both_gradient_modules() -> None:
    assert ipu.eager.backprop.GradientCaptureTape is GradientCaptureTape
    assert ipu.eager.backprop.GradientCaptureContext is GradientCaptureContext
    assert ipu.grad_util_ops.GradientCaptureContext is GradientCaptureContext


class TestTape:
    def test_is_a_tape_and_a_context(self) -> None:
        x = tf.constant(X)
        with GradientCaptureTape() as tape:
            tape.watch(x)
            loss = _cube(x)
        gradient = tape.gradient(loss, x)
        _assert_captured([tape.captured_gradients["hidden"], [gradient]])
        assert isinstance(tape, tf.GradientTape)
        assert isinstance(tape, GradientCaptureContext)
        with pytest.raises(RuntimeError, match="can only be used to compute one set"):
            tape.gradient(loss, x)

    def test_a_persistent_tape_captures_for_each_gradient(self) -> None:
        x = tf.constant(X)
        with GradientCaptureTape(persistent=True) as tape:
            tape.watch(x)
            first, second = _cube(x), tf.reduce_sum(x)
        tape.gradient(second, x)
        assert tape.captured_gradients == {}
        tape.gradient(first, x)
        np.testing.assert_allclose(tape.captured_gradients["hidden"][0], 6 * X**2)
        with pytest.raises(ValueError, match="Gradient exists in the captured grads frame"):
            tape.gradient(first, x)

    def test_watches_variables_unless_told_not_to(self) -> None:
        variable = tf.Variable(X)
        with GradientCaptureTape(watch_accessed_variables=False) as tape:
            loss = _cube(variable.read_value())
        assert tape.gradient(loss, variable) is None
        assert tape.captured_gradients == {}

    @pytest.mark.parametrize("make", [GradientCaptureTape, GradientCaptureContext])
    def test_captured_gradients_cannot_be_set(self, make: Callable[[], Any]) -> None:
        with pytest.raises(ValueError, match="captured_gradients is read only"):
            make().captured_gradients = {}


@each_form
@pytest.mark.parametrize("count", [1, 2])
def test_tapes_capture_in_programs(form: Any, count: int) -> None:
    def program() -> list[tf.Tensor]:
        x = tf.constant(X)
        with GradientCaptureTape() as tape:
            tape.watch(x)
            loss = form(_cube)(x)
        gradient = tape.gradient(loss, x)
        return [*tape.captured_gradients["hidden"], gradient]

    _assert_captured(replicas.run(count, program, False), count)


@each_form
def test_gradients_of_graphs_are_captured_after_the_context(form: Any) -> None:
    def program() -> list[tf.Tensor]:
        x = tf.constant(X)
        with GradientCaptureContext() as context:
            loss = form(_cube)(x)
        (gradient,) = tf.gradients(loss, x)
        return [*context.captured_gradients["hidden"], gradient]

    _assert_captured(replicas.run(1, program, False))


def test_gradients_inside_a_function_are_captured() -> None:
    def program() -> list[tf.Tensor]:
        @outlined_function
        def gradient_of(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = _cube(x)
            return tape.gradient(loss, x)

        with GradientCaptureContext() as context:
            gradient = gradient_of(tf.constant(X))
        return [*context.captured_gradients["hidden"], gradient]

    _assert_captured(replicas.run(1, program, False))


def test_gradients_in_nested_functions_are_captured() -> None:
    def program() -> list[tf.Tensor]:
        @outlined_function
        def triple(x: tf.Tensor) -> tf.Tensor:
            return capture_upstream_gradients(x * 3, tag="inner")

        @outlined_function
        def squared(x: tf.Tensor) -> tf.Tensor:
            hidden = triple(x)
            return capture_upstream_gradients(hidden * hidden, tag="outer") * 2

        x = tf.constant(X)
        with GradientCaptureTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(squared(x))
        gradient = tape.gradient(loss, x)
        captured = tape.captured_gradients
        return [*captured["inner"], *captured["outer"], gradient]

    inner, outer, gradient = replicas.run(1, program, False)
    np.testing.assert_allclose(inner, [12 * X])
    np.testing.assert_allclose(outer, [np.full(3, 2.0)])
    np.testing.assert_allclose(gradient, [36 * X])


def test_a_function_whose_variable_alone_is_differentiated() -> None:
    variables: list[Any] = []

    def program() -> list[tf.Tensor]:
        if not variables:
            with tf.init_scope():
                variables.append(tf.Variable(X))

        @outlined_function
        def scaled(x: tf.Tensor) -> tf.Tensor:
            return capture_upstream_gradients(x * variables[0], tag="product") * [1.0, 2.0, 3.0]

        with GradientCaptureTape() as tape:
            loss = tf.reduce_sum(scaled(tf.constant(5 * X)))
        gradient = tape.gradient(loss, variables[0])
        return [*tape.captured_gradients["product"], gradient]

    product, gradient = replicas.run(1, program, False)
    np.testing.assert_allclose(product, [[1, 2, 3]])
    np.testing.assert_allclose(gradient, [[5, 20, 45]])


def test_functions_that_are_called_twice_capture_twice() -> None:
    def program() -> list[tf.Tensor]:
        def tagged(tag: str) -> Callable[..., Any]:
            return outlined_function(lambda x: capture_upstream_gradients(x * x, tag=tag))

        x = tf.constant(X)
        with GradientCaptureTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tagged("second")(tagged("first")(x)))
        tape.gradient(loss, x)
        return [*tape.captured_gradients["first"], *tape.captured_gradients["second"]]

    first, second = replicas.run(1, program, False)
    np.testing.assert_allclose(first, [2 * X**2])
    np.testing.assert_allclose(second, [np.ones(3)])


def test_gradients_of_functions_need_a_context() -> None:
    def program() -> Any:
        x = tf.constant(X)
        loss = outlined_function(_cube)(x)
        return tf.gradients(loss, x)

    with pytest.raises(RuntimeError, match="may only be used within the context of"):
        replicas.run(1, program, False)


class TestOptimizersInLoops:
    """Hand-written training loops with optimizers of Keras."""

    def _train(
        self, make_optimizer: Callable[[], Any], body: Callable[..., Any]
    ) -> tuple[Any, Any]:
        """Runs three steps of a dense layer through a layer that captures."""
        replicas.configure(1)
        strategy = ipu.ipu_strategy.IPUStrategy()
        with strategy.scope():
            dense = tf.keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
            layer = ipu.keras.layers.CaptureUpstreamGradients(dense, tag="y")
            layer.build([None, 3])
            queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
            optimizer = make_optimizer()

            @tf.function(jit_compile=True)
            def train() -> None:
                ipu.loops.repeat(3, lambda: body(layer, queue, optimizer), [])

            strategy.run(train)
        return dense.kernel.numpy(), queue.dequeue()

    def _assert_trained(self, kernel: Any, captured: Any) -> None:
        """The loss is the square of 6 w at first, its derivative by the output twice that."""
        w, found = np.ones((3, 1)), []
        for _ in range(3):
            found.append(2 * X[None] @ w)
            w -= 0.01 * X[:, None] * found[-1]
        np.testing.assert_allclose(kernel, w, rtol=1e-5)
        np.testing.assert_allclose(captured, found, rtol=1e-5)

    def test_gradients_that_the_optimizer_computes_are_captured(self) -> None:
        def body(layer: Any, queue: Any, optimizer: Any) -> tf.Operation:
            with GradientCaptureContext() as context:
                loss = tf.reduce_sum(layer(tf.constant(X[None])) ** 2)
            gradients = optimizer.get_gradients(loss, layer.trainable_variables)
            optimizer.apply_gradients(zip(gradients, layer.trainable_variables))
            return queue.enqueue(context.captured_gradients["y"][0])

        self._assert_trained(*self._train(lambda: tf.keras.optimizers.legacy.SGD(0.01), body))

    def test_captured_gradients_scale_the_loss_in_loops(self) -> None:
        def make_optimizer() -> Any:
            return ipu.keras.optimizers.ALSOptimizer(
                tf.keras.optimizers.legacy.SGD(0.01), initial_loss_scaling_factor=2
            )

        def body(layer: Any, queue: Any, optimizer: Any) -> tf.Operation:
            with GradientCaptureTape() as tape:
                loss = tf.reduce_sum(layer(tf.constant(X[None])) ** 2)
                scaled = optimizer.get_scaled_loss(loss)
            gradients = tape.gradient(scaled, layer.trainable_variables)
            optimizer.apply_gradients(
                zip(gradients, layer.trainable_variables), captured_grads=tape.captured_gradients
            )
            return queue.enqueue(tape.captured_gradients["y"][0] / 2)

        self._assert_trained(*self._train(make_optimizer, body))
