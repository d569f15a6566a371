"""Collectives on the host, with one instance."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import distributed

SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
TYPES = [tf.float16, tf.float32, tf.int32, tf.int64, tf.uint8]


def test_functions_are_public_in_ipu_distributed():
    assert distributed is ipu.distributed
    assert distributed.allreduce is distributed.host_collective_ops.allreduce
    assert {"allgather", "allreduce", "broadcast", "popdist_strategy"} <= set(dir(distributed))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("graph", [False, True])
def test_values_of_one_instance_are_unchanged(dtype, graph):
    def compute(value):
        return [
            distributed.allgather(value),
            distributed.allreduce(value, SUM),
            distributed.allreduce(value, MEAN, tensor_name="mean"),
            distributed.broadcast(value, 0),
        ]

    value = tf.constant([1, 2, 3], dtype)
    gathered, *same = (tf.function(compute) if graph else compute)(value)
    np.testing.assert_array_equal(gathered, [[1, 2, 3]])
    for found in same:
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, value)


def test_on_host_in_scope_of_an_ipu():
    with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
        for found in (distributed.allreduce(1.0, SUM), distributed.broadcast(True)):
            assert found.device == "/device:CPU:0"


@pytest.mark.parametrize("name", ["allgather", "broadcast"])
@pytest.mark.parametrize("dtype", [tf.float64, tf.string])
def test_other_types_are_refused(name, dtype):
    value = tf.constant("a") if dtype == tf.string else tf.constant(1, dtype)
    with pytest.raises(TypeError, match=f"{name} takes integers.* type {dtype.name}"):
        getattr(distributed, name)(value)
    with pytest.raises(TypeError, match="allreduce takes integers, float16 and float32"):
        distributed.allreduce(tf.constant(True), SUM)


def test_other_arguments_are_refused():
    with pytest.raises(ValueError, match="Unsupported reduce op"):
        distributed.allreduce(1.0, "MAX")
    with pytest.raises(ValueError, match="root_rank=1"):
        distributed.broadcast(1.0, 1)
