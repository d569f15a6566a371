"""The modules of raw ops: `gen_poputil_ops` and others, below the Poplar plugin."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.plugin.poplar.ops import (
    gen_popnn_ops,
    gen_popops_ops,
    gen_poprand_ops,
    gen_poputil_ops,
)
from tensorflow.python import ipu

from tests.support.programs import replicas

X = np.float32([[1.0, -2.0], [0.5, 3.0]])


@pytest.mark.parametrize(
    ("mine", "public"),
    [
        (gen_popnn_ops.ipu_gelu, ipu.nn_ops.gelu),
        (gen_popnn_ops.ipu_swish, ipu.nn_ops.swish),
        (gen_popnn_ops.ipu_hard_sigmoid, ipu.nn_ops.hard_sigmoid),
        (gen_popnn_ops.ipu_softmax, tf.nn.softmax),
        (gen_popnn_ops.ipu_stable_softmax, tf.nn.softmax),
        (gen_poputil_ops.ipu_remap, tf.identity),
        (gen_poputil_ops.ipu_remap_deduce, tf.identity),
        (lambda x: gen_poputil_ops.ipu_fifo(x, 1), tf.zeros_like),
        (lambda x: gen_poprand_ops.ipu_dropout(x, rate=0.0), tf.identity),
        (
            lambda x: gen_popops_ops.ipu_histogram(tf.reshape(x, [-1]), tf.constant([0.0])),
            lambda x: tf.constant([1.0, 3.0]),
        ),
    ],
)
def test_raw_ops_equal_the_public_functions(mine, public):
    (found,) = replicas.run(1, lambda: mine(tf.constant(X)))
    np.testing.assert_allclose(found, public(tf.constant(X)), rtol=1e-6)


def test_raw_collectives_compute_over_replicas():
    def program():
        index = tf.cast(ipu.replication_ops.replication_index(), tf.float32)
        x = tf.constant([2.0, 4.0]) + index
        total = gen_popops_ops.ipu_cross_replica_sum(x)
        return (
            total,
            gen_poputil_ops.ipu_replication_normalise(total),
            gen_popops_ops.ipu_assume_equal_across_replicas(total),
            gen_popops_ops.ipu_all_gather(x, replication_factor=2),
            gen_popops_ops.ipu_all_to_all(x, 0, 0, 2),
            gen_popops_ops.ipu_reduce_scatter(x, 2),
        )

    total, mean, same, gathered, exchanged, scattered = (
        np.asarray(value) for value in replicas.run(2, program)
    )
    for replica in range(2):
        np.testing.assert_array_equal(total[replica], [5.0, 9.0])
        np.testing.assert_array_equal(mean[replica], [2.5, 4.5])
        np.testing.assert_array_equal(same[replica], [5.0, 9.0])
        np.testing.assert_array_equal(gathered[replica], [[2.0, 4.0], [3.0, 5.0]])
    np.testing.assert_array_equal(exchanged, [[2.0, 3.0], [4.0, 5.0]])
    np.testing.assert_array_equal(scattered, [[5.0], [9.0]])


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_of_mini_batches_are_added_up(count):
    """Weights of gradient descent equal one step with every sum."""
    replicas.configure(1)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program():
        def body(number):
            gradient = gen_poputil_ops.ipu_stateful_gradient_accumulate(
                number * tf.ones([2]), num_mini_batches=count, verify_usage=False
            )
            return number + 1.0, outfeed.enqueue(gradient)

        return ipu.loops.repeat(7, body, [tf.constant(1.0)])

    for _ in range(2):  # each run starts from zero
        ipu.ipu_strategy.IPUStrategy().run(program)
        numbers = np.arange(1.0, 8.0)
        want = [
            numbers[index + 1 - count : index + 1].sum() if (index + 1) % count == 0 else 0.0
            for index in range(7)
        ]
        np.testing.assert_array_equal(outfeed.dequeue()[:, 0], want)


def test_accumulating_outside_of_programs_is_refused():
    with pytest.raises(RuntimeError, match="has to be in a program"):
        gen_poputil_ops.ipu_stateful_gradient_accumulate(tf.ones([2]), 2)
    with pytest.raises(ValueError, match="num_mini_batches"):
        gen_poputil_ops.ipu_stateful_gradient_accumulate(tf.ones([2]), 0)


@pytest.mark.parametrize("name", ["gen_poputil_ops", "gen_popnn_ops", "gen_poprand_ops"])
def test_other_raw_ops_say_where_public_functions_are(name):
    module = importlib.import_module(f"tensorflow.compiler.plugin.poplar.ops.{name}")
    with pytest.raises(AttributeError, match=f"{name}.ipu_nothing: raw ops .* are in ipu"):
        module.ipu_nothing  # noqa: B018
