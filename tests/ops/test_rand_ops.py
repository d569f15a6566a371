"""Dropout: rates, masks, seeds and gradients, in programs, loops, pipelines and on replicas."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes, utils
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import pipelining_ops, rand_ops
from tests.support.checkout.repository import ROOT
from tests.support.programs import replicas

tf1 = tf.compat.v1
COUNT = 100_000


def in_loop(function: Callable[[], Any], steps: int = 4, device_seed: int = 3) -> np.ndarray:
    """Results of a function in each step of a loop on the device."""
    replicas.configure(1)
    utils.reset_ipu_seed(device_seed)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = IPUOutfeedQueue()
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(
                lambda: loops.repeat(steps, lambda: queue.enqueue(function()), [])
            )
        dequeue = queue.dequeue()
        session.run(launch)
        return session.run(dequeue)


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
@pytest.mark.parametrize("seed", [None, (3, 4)])
def test_as_many_elements_are_dropped_as_rate_says(rate: float, dtype: Any, seed: Any) -> None:
    (kept,) = in_loop(lambda: rand_ops.dropout(tf.ones([COUNT], dtype), rate, seed=seed), steps=1)
    assert kept.dtype == dtype.as_numpy_dtype
    dropped = (kept == 0).mean()
    assert abs(dropped - rate) <= 3 * np.sqrt(rate * (1 - rate) / COUNT)
    np.testing.assert_allclose(kept[kept != 0], 1 / (1 - rate), rtol=1e-3)


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("seed", [None, [1, 2]])
def test_the_gradient_goes_through_the_mask(in_session: bool, seed: Any) -> None:
    x = replicas.rows(2, (40, 5))

    def program() -> list[tf.Tensor]:
        mine = replicas.own_row(x)
        y = rand_ops.dropout(mine, 0.4, seed=seed)
        return [y, tf.gradients(y, mine, 3 * tf.ones_like(y))[0]]

    y, gradient = replicas.run(2, program, in_session)
    np.testing.assert_allclose(y, np.where(y == 0, 0, x / 0.6), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.where(y == 0, 0, 3 / 0.6), rtol=1e-6)
    assert ((y[0] == 0) == (y[1] == 0)).all() == (seed is not None)


def test_without_a_seed_masks_come_from_the_device() -> None:
    first, again, other = (
        in_loop(lambda: rand_ops.dropout(tf.ones([50])), device_seed=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert len({tuple(row) for row in first}) == len(first)


def test_with_seed_mask_is_function_of_it() -> None:
    def both() -> list[tf.Tensor]:
        return [rand_ops.dropout(tf.ones([50]), seed=seed) for seed in ([5, 6], [5, 7])]

    masks, others = in_loop(both)
    assert (masks == masks[0]).all() and (masks != others).any()
    # As a tensor, an array or a list, in or outside of a program.
    for seed in (tf.constant([5, 6]), np.array([5, 6])):
        np.testing.assert_array_equal(rand_ops.dropout(tf.ones([50]), seed=seed), masks[0])


def test_masks_and_gradients_of_a_loop_belong_together() -> None:
    """The gradient of a loop goes back through the mask of each of its steps."""

    def program() -> list[tf.Tensor]:
        x = tf.ones([30])
        y, _ = tf.while_loop(
            lambda _, i: i < 3,
            lambda value, i: (rand_ops.dropout(value, 0.3), i + 1),
            [x, 0],
            maximum_iterations=3,
        )
        return [y, tf.gradients(y, x)[0]]

    for in_session in (False, True):
        y, gradient = replicas.run(1, program, in_session)
        np.testing.assert_allclose(y, gradient, rtol=1e-6)
        assert 0 < (y == 0).sum() < 30


def test_gradients_in_a_pipeline_go_through_the_mask() -> None:
    """The gradient of stage 0's weights passes through the dropout of stage 1."""
    width = 20
    replicas.configure(2)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = IPUOutfeedQueue()

        def first() -> tf.Tensor:
            return tf1.get_variable("w", initializer=tf.ones([width]), use_resource=True) * 1.0

        def second(x: tf.Tensor) -> Any:
            y = rand_ops.dropout(x, 0.5)
            return tf.reduce_sum(y), y

        def optimizer_function(loss: tf.Tensor, _: tf.Tensor) -> Any:
            optimizer = tf1.train.GradientDescentOptimizer(1.0)
            return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(
                lambda: pipelining_ops.pipeline(
                    [first, second],
                    gradient_accumulation_count=4,
                    outfeed_queue=queue,
                    optimizer_function=optimizer_function,
                )
            )
        dequeue = queue.dequeue()
        session.run(tf1.global_variables_initializer())
        session.run(launch)
        _, outputs = session.run(dequeue)
        (weights,) = session.run(tf1.trainable_variables())
    assert len({tuple(row) for row in outputs}) == 4
    # With weights of 1 the outputs are the masks, and so the gradients.
    np.testing.assert_allclose(1.0 - weights, outputs.sum(0))


@pytest.mark.parametrize("noise_shape", [[4, 1, 6], (1, 5, 1), np.array([4, 5, 6])])
def test_mask_is_shared_where_noise_shape_is_one(noise_shape: Any) -> None:
    x = tf.constant(replicas.rows(1, (4, 5, 6))[0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = rand_ops.dropout(x, 0.5, noise_shape=noise_shape, seed=[1, 2])
    kept = y.numpy() != 0
    axes = tuple(axis for axis, length in enumerate(noise_shape) if length == 1)
    one = kept.any(axes, keepdims=True)
    np.testing.assert_array_equal(kept, np.broadcast_to(one, kept.shape))
    assert 0 < one.sum() < one.size
    np.testing.assert_allclose(y, np.where(kept, 2 * x, 0))
    np.testing.assert_allclose(tape.gradient(y, x), np.where(kept, 2.0, 0.0))


def test_noise_shape_not_fitting_batch_is_refused() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def dropped(x: tf.Tensor) -> tf.Tensor:
        return rand_ops.dropout(x, 0.5, noise_shape=[4, 1], seed=[1, 2])

    assert dropped(tf.ones([4, 3])).shape == [4, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible with expected shape"):
        dropped(tf.ones([1, 3]))


def test_a_rate_of_zero_drops_nothing() -> None:
    x = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(rand_ops.dropout(x, 0.0), x)
    for ref in (True, False):
        assert rand_ops.dropout(x, rate=0.5, ref=ref).shape == 2


def test_masks_do_not_depend_on_threads(run_program: Any) -> None:
    code = """
        import numpy as np, sys, tensorflow as tf, zlib
        tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
        tf.config.threading.set_inter_op_parallelism_threads(int(sys.argv[1]))
        from tensorflow_ipu.api import utils
        from tensorflow_ipu.ops import rand_ops
        from tests.support.programs import replicas
        replicas.configure(2)
        utils.reset_ipu_seed(1)
        x = tf.ones([200000])
        kept = replicas.run(
            2, lambda: [rand_ops.dropout(x), rand_ops.dropout(x, seed=[1, 2])]
        )
        print(zlib.crc32(np.array(kept)))
    """
    outputs = {
        run_program(textwrap.dedent(code), args=[threads], cwd=ROOT).stdout
        for threads in ("1", "4")
    }
    assert len(outputs) == 1


X = np.ones([2, 3], np.float32)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"rate": 1.0}, ValueError, r"The rate must be in the range \[0, 1\), but was 1.0"),
        ({"rate": -0.1}, ValueError, r"The rate must be in the range \[0, 1\)"),
        ({"rate": float("nan")}, ValueError, r"The rate must be in the range \[0, 1\)"),
        ({"rate": "half"}, TypeError, "rate must be a number"),
        ({"noise_shape": [2]}, ValueError, "length of noise_shape must equal the rank of x"),
        ({"noise_shape": [2, 2]}, ValueError, "Dimension mismatch.* 1 or 3 at dimension 1"),
        ({"noise_shape": 5}, ValueError, "noise_shape must be a list of integers"),
        ({"seed": [1, 2, 3]}, ValueError, r"Expected the seed to have a shape \[2\].*3"),
        ({"seed": 1}, ValueError, r"Expected the seed to have a shape \[2\]"),
        ({"seed": [1.0, 2.0]}, TypeError, "seed must be a pair of integers"),
        ({"scale": 2}, TypeError, "takes the keyword ref .*Received: scale"),
        ({"x": X.astype(np.int32)}, TypeError, "x must be a tensor of floats.*int32"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rand_ops.dropout(**{"x": X, **arguments})
