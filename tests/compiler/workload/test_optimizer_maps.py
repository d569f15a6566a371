"""Optimizers of Keras, really compiled: their elementwise ops are one map for each variable."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu import profiler
from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.planner.program import fused_maps
from tensorflow_ipu.planner.program.fused_maps import FusedMaps
from tensorflow_ipu.planner.program.resources import costs_of
from tensorflow_ipu.planner.settings import Settings

SHAPE = (64, 48)
NONE = FusedMaps({}, frozenset())
optimizers = tf.keras.optimizers


@pytest.mark.parametrize(
    ("make", "lengths"),
    [
        # Two moments and the weights; what the step counts for is one of numbers.
        (lambda: optimizers.Adam(0.1), (3, 4, 5)),
        (lambda: optimizers.RMSprop(0.1), (5, 6)),
        # The sum with the weights is in place by itself: the momentum is read twice.
        (lambda: optimizers.SGD(0.1, momentum=0.9), (5,)),
    ],
    ids=["adam", "rmsprop", "momentum"],
)
def test_optimizer_is_map_for_each_variable_of_weight(make, lengths):
    with ipu_strategy.IPUStrategy().scope() as strategy:
        weight, optimizer = tf.Variable(tf.ones(SHAPE)), make()
        optimizer.build([weight])

        @tf.function(jit_compile=True)
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, weight))
            optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
            return loss

        strategy.run(step, [tf.ones([8, 64])])
    workload = profiler.executables()[-1].workload
    maps = fused_maps.find(workload)
    found = [
        len(members)
        for members in maps.ops.values()
        if workload.ops[members[-1]].inputs[0].shape == SHAPE
    ]
    assert tuple(sorted(found)) == lengths
    costs, apart = costs_of(workload, Settings(BOW)), costs_of(workload, Settings(BOW), NONE)
    assert sum(c.cycles for c in costs) < sum(c.cycles for c in apart)
