"""`ipu.horovod` in one process."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ipu import horovod as hvd


@pytest.fixture(autouse=True)
def initialised():
    hvd.init()
    yield
    hvd.shutdown()


def test_one_process_is_rank_0_of_1():
    hvd.init()  # again
    hvd.init(comm=[0])
    assert hvd.is_initialized()
    assert (hvd.size(), hvd.rank(), hvd.local_size(), hvd.local_rank()) == (1, 0, 1, 0)
    assert (hvd.cross_size(), hvd.cross_rank()) == (1, 0)
    assert hvd.is_homogeneous() is True and hvd.mpi_threads_supported() is False
    for name in ("mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built", "nccl_built"):
        assert getattr(hvd, name)() is False
    assert hvd.ddl_built() is hvd.ccl_built() is False
    with pytest.raises(ValueError, match="comm must be ranks from 0 to 0"):
        hvd.init(comm=[1])


@pytest.mark.parametrize(
    "call",
    [
        hvd.size,
        hvd.rank,
        hvd.local_size,
        hvd.local_rank,
        hvd.cross_size,
        hvd.cross_rank,
        hvd.is_homogeneous,
        hvd.mpi_threads_supported,
        lambda: hvd.allreduce(1.0),
        lambda: hvd.allgather([1.0]),
        lambda: hvd.broadcast(1.0, 0),
    ],
)
def test_functions_before_init_are_refused(call):
    hvd.shutdown()
    assert not hvd.is_initialized()
    with pytest.raises(ValueError, match=r"Horovod has not been initialized; use hvd.init\(\)\."):
        call()


@pytest.mark.parametrize("op", [None, hvd.Average, hvd.Sum])
@pytest.mark.parametrize("graph", [False, True])
def test_values_of_one_process_are_unchanged(op, graph):
    def compute(value):
        return hvd.allreduce(value, op), hvd.allgather(value), hvd.broadcast(value, 0, name="same")

    value = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    for found in (tf.function(compute) if graph else compute)(value):
        np.testing.assert_array_equal(found, value)


def test_variables_and_slices_are_reduced():
    assert float(hvd.allreduce(tf.Variable(2.0))) == 2.0
    slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([2]), tf.constant([4, 1]))
    found = hvd.allreduce(slices)
    assert isinstance(found, tf.IndexedSlices)
    np.testing.assert_array_equal(tf.convert_to_tensor(found), tf.convert_to_tensor(slices))


def test_wrong_arguments_are_refused():
    with pytest.raises(NotImplementedError, match="Adasum reduction is not supported"):
        hvd.allreduce(1.0, hvd.Adasum)
    with pytest.raises(ValueError, match="op must be Average or Sum"):
        hvd.allreduce(1.0, 7)
    with pytest.raises(ValueError, match="rank 1 or more"):
        hvd.allgather(1.0)
    with pytest.raises(ValueError, match="from 0 to 0.*root_rank=1"):
        hvd.broadcast(1.0, 1)
