"""Pipelines whose optimizers scale the loss or take captured gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.eager import backprop
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.keras_layers import optimizers
from tensorflow_ipu.ops import functional_ops, grad_util_ops, pipelining_ops
from tests.support.models import pipelines

keras = tf.keras
tf1 = tf.compat.v1
COUNT = 4
EXECUTIONS = 2
FAMILIES = {"new": keras.optimizers, "legacy": keras.optimizers.legacy}
SCALING: dict[str, Callable[[Any], Any]] = {
    "als": lambda opt: optimizers.ALSOptimizer(
        opt, update_frequency=1, initial_loss_scaling_factor=8
    ),
    "static": lambda opt: keras.mixed_precision.LossScaleOptimizer(
        opt, dynamic=False, initial_scale=8
    ),
    "dynamic": lambda opt: keras.mixed_precision.LossScaleOptimizer(
        opt, initial_scale=8, dynamic_growth_steps=1
    ),
}


class Recording(keras.optimizers.legacy.SGD):  # type: ignore[misc]
    """Adds the captured gradients it gets to a variable, and notes their tags."""

    def __init__(self) -> None:
        super().__init__(0.1)
        self.total = tf.Variable(tf.zeros([pipelines.BATCH, 6]))
        self.tags: list[str] = []

    def apply_gradients(self, grads_and_vars: Any, captured_grads: Any = None) -> Any:
        self.tags = sorted(captured_grads or {})
        updates = [self.total.assign_add(g) for (g,) in (captured_grads or {}).values()]
        with tf.control_dependencies(updates):
            return super().apply_gradients(grads_and_vars)


def _train(
    make_optimizer: Callable[[], Any],
    replicas: int = 1,
    capturing: bool = False,
    with_tape: bool = False,
    has_outfeed: bool = False,
    context: Any = None,
    make_tape: Callable[[], Any] = tf.GradientTape,
    **arguments: Any,
) -> tuple[Any, pipelines.Outcome]:
    """Trains the model in a pipeline with two stages; captured are the inputs of the second."""
    pipelines.configure(2 * replicas)
    strategy = ipu_strategy.IPUStrategy()
    data = pipelines.data(COUNT * EXECUTIONS * replicas)
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(pipelines.BATCH, drop_remainder=True)
    with strategy.scope():
        infeed = IPUInfeedQueue(dataset)
        captured_outfeed = IPUOutfeedQueue() if has_outfeed else None
        weights = [tf.Variable(pipelines.initial(index)) for index in range(4)]
        optimizer = make_optimizer()

        def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
            return pipelines.layer(pipelines.layer(x, 0, weights[0]), 1, weights[1]), labels

        def second(x: tf.Tensor, labels: tf.Tensor) -> Any:
            if capturing:
                x = grad_util_ops.capture_upstream_gradients(x, tag="middle")
            x = pipelines.layer(pipelines.layer(x, 2, weights[2]), 3, weights[3])
            return pipelines.loss_of(x, labels)

        def pipeline(tape: Any) -> None:
            pipelining_ops.pipeline(
                [first, second],
                COUNT,
                repeat_count=EXECUTIONS,
                infeed_queue=infeed,
                outfeed_queue=IPUOutfeedQueue(),
                optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(
                    optimizer,
                    loss,
                    variables=None if tape else weights,
                    tape=tape,
                    captured_gradient_outfeed=captured_outfeed,
                    gradient_capture_context=context,
                ),
                **arguments,
            )

        @tf.function(jit_compile=True)
        def train() -> None:
            if with_tape:
                with make_tape() as tape:
                    pipeline(tape)
            else:
                pipeline(None)

        _ = infeed.initializer
        strategy.run(train)
    names = {f"w{index}": weight.numpy() for index, weight in enumerate(weights)}
    taken = captured_outfeed.dequeue() if captured_outfeed is not None else None
    return optimizer, pipelines.Outcome(taken, names)


def _expected_captured(executions: int = EXECUTIONS) -> np.ndarray:
    """Returns the derivatives by the input of the second stage, of the first execution.

    Their shape is [COUNT, BATCH, 6].
    """
    x, y = pipelines.data(COUNT * executions)
    weights = [tf.constant(pipelines.initial(index)) for index in range(4)]
    found = []
    for first in range(0, COUNT * pipelines.BATCH, pipelines.BATCH):
        rows = slice(first, first + pipelines.BATCH)
        middle = pipelines.layer(
            pipelines.layer(tf.constant(x[rows]), 0, weights[0]), 1, weights[1]
        )
        with tf.GradientTape() as tape:
            tape.watch(middle)
            out = pipelines.layer(pipelines.layer(middle, 2, weights[2]), 3, weights[3])
            loss = pipelines.loss_of(out, tf.constant(y[rows]))
        found.append(tape.gradient(loss, middle).numpy())
    return np.stack(found)


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("with_tape", [False, True])
@pytest.mark.parametrize("scaling", list(SCALING))
def test_loss_scaling_changes_no_weights(scaling: str, with_tape: bool, family: str) -> None:
    optimizer, got = _train(
        lambda: SCALING[scaling](FAMILIES[family].SGD(0.1, momentum=0.9)), with_tape=with_tape
    )
    pipelines.assert_same_weights(got, pipelines.expected(COUNT, EXECUTIONS, "momentum"))
    factor = optimizer.loss_scaling_factor if scaling == "als" else optimizer.loss_scale
    assert factor.numpy() == (8 if scaling == "static" else 32)
    assert optimizer.iterations.numpy() == EXECUTIONS


@pytest.mark.parametrize("scaling", ["als", "dynamic"])
def test_loss_scaling_changes_no_weights_on_replicas(scaling: str) -> None:
    optimizer, got = _train(
        lambda: optimizers.CrossReplicaOptimizer(
            SCALING[scaling](keras.optimizers.legacy.SGD(0.1, momentum=0.9))
        ),
        replicas=2,
    )
    want = pipelines.expected(COUNT, EXECUTIONS, "momentum", replicas=2)
    pipelines.assert_same_weights(got, want)


def test_the_loss_is_differentiated_scaled() -> None:
    def make() -> Any:
        return optimizers.ALSOptimizer(
            keras.optimizers.legacy.SGD(0.0), initial_loss_scaling_factor=64
        )

    _, got = _train(make, capturing=True, has_outfeed=True)
    want = 64 * _expected_captured().sum(0)
    np.testing.assert_allclose(got.outfeed["middle"][0][0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "expect"),
    [
        ({}, lambda captured: captured.sum(0)),
        ({"reduction_method": "mean"}, lambda captured: captured.mean(0)),
        ({"gradient_accumulation_for_captured_grads": False}, lambda captured: captured[-1]),
    ],
)
def test_captured_gradients_reach_optimizer_and_outfeed(
    arguments: dict[str, Any], expect: Any
) -> None:
    optimizer, got = _train(Recording, capturing=True, has_outfeed=True, **arguments)
    assert optimizer.tags == ["middle"]
    assert list(got.outfeed) == ["middle"]
    (sent,) = got.outfeed["middle"]
    assert sent.shape == (EXECUTIONS, pipelines.BATCH, 6)
    np.testing.assert_allclose(sent[0], expect(_expected_captured()), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(optimizer.total.numpy(), np.sum(sent, 0), rtol=1e-5, atol=1e-6)
    if not arguments.get("reduction_method"):
        pipelines.assert_same_weights(got, pipelines.expected(COUNT, EXECUTIONS))


def test_captures_accumulate_in_the_type_asked_for() -> None:
    _, got = _train(
        lambda: keras.optimizers.legacy.SGD(0.0),
        capturing=True,
        has_outfeed=True,
        gradient_accumulation_dtype=lambda value: (
            tf.float16 if value.shape == [pipelines.BATCH, 6] else None
        ),
    )
    assert got.outfeed["middle"][0].dtype == np.float16


def test_a_context_of_the_users_own_is_used() -> None:
    context = grad_util_ops.GradientCaptureContext()
    optimizer, got = _train(Recording, capturing=True, context=context)
    assert list(context.captured_gradients) == ["middle"]
    assert optimizer.tags == ["middle"]
    pipelines.assert_same_weights(got, pipelines.expected(COUNT, EXECUTIONS))


def test_a_capturing_tape_is_used() -> None:
    tapes: list[Any] = []

    def make_tape() -> Any:
        tapes.append(backprop.GradientCaptureTape())
        return tapes[-1]

    optimizer, got = _train(Recording, capturing=True, with_tape=True, make_tape=make_tape)
    assert all(list(tape.captured_gradients) == ["middle"] for tape in tapes)
    assert optimizer.tags == ["middle"]
    pipelines.assert_same_weights(got, pipelines.expected(COUNT, EXECUTIONS))


def test_captures_that_nobody_wants_are_left_alone() -> None:
    _, got = _train(lambda: keras.optimizers.legacy.SGD(0.1), capturing=True)
    pipelines.assert_same_weights(got, pipelines.expected(COUNT, EXECUTIONS))


def test_without_captures_there_are_no_captured_gradients() -> None:
    optimizer, _ = _train(Recording)
    assert optimizer.tags == []
    with pytest.raises(ValueError, match="no gradients were captured"):
        _train(Recording, has_outfeed=True)


@pytest.mark.parametrize("outlined", [False, True])
def test_optimizers_of_tensorflow_1_get_captured_gradients(outlined: bool) -> None:
    with tf.Graph().as_default():
        outfeed = IPUOutfeedQueue()

        def second(x: tf.Tensor, labels: tf.Tensor) -> Any:
            def last(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
                x = grad_util_ops.capture_upstream_gradients(x, tag="middle")
                return pipelines.stages(2)[1](x, labels)

            function = functional_ops.outlined_function(last) if outlined else last
            return function(x, labels)

        def optimizer_function(loss: tf.Tensor) -> pipelining_ops.OptimizerFunctionOutput:
            return pipelining_ops.OptimizerFunctionOutput(
                pipelines.optimizer("sgd"), loss, captured_gradient_outfeed=outfeed
            )

        got = pipelines.run(
            [pipelines.stages(2)[0], second],
            pipelines.data(COUNT),
            gradient_accumulation_count=COUNT,
            optimizer_function=optimizer_function,
        )
    pipelines.assert_same_weights(got, pipelines.expected(COUNT, 1))
    with tf1.Session() as session:
        sent = session.run(outfeed.dequeue())
    want = _expected_captured(executions=1).sum(0)
    np.testing.assert_allclose(sent["middle"][0][0], want, rtol=1e-4, atol=1e-6)
