"""Feeds of arrays: their values arrive in programs, and enqueued values come out."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compiler import launch, trace
from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed
from tensorflow_ipu.runtime import native


class Echo:
    """A program that enqueues its input N times."""

    def __init__(self, times: int, *specs: tf.TensorSpec) -> None:
        self.infeed, self.outfeed = ArrayInfeed(specs, 0), ArrayOutfeed(0)

        def body(i):
            with tf.control_dependencies([self.outfeed.enqueue(self.infeed.dequeue())]):
                return i + 1

        def build():
            return [], [tf.while_loop(lambda i: i < times, body, [tf.constant(0)])[0].op]

        self.cluster = trace.trace(build, [], "echo")

    def run(self) -> None:
        launch.launch(self.cluster, self.cluster.graph.external_captures, "/device:IPU:0")


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_elements_pass_in_order_of_replicas(configure, replicas):
    configure(replicas)
    echo = Echo(3, tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32))
    data = np.random.default_rng(0).normal(size=(5 * replicas, 2)).astype(np.float32)
    numbers = np.arange(5 * replicas, dtype=np.int32)
    for _ in range(2):  # what is left of the elements goes
        echo.infeed.fill(5 * replicas, [data, numbers])
        echo.run()
        pair = np.zeros_like(data), np.zeros_like(numbers)
        assert echo.outfeed.take(5, pair) == 3
        for found, given in zip(pair, (data, numbers)):
            np.testing.assert_array_equal(found[: 3 * replicas], given[: 3 * replicas])
            assert not found[3 * replicas :].any()


@pytest.mark.parametrize(
    "dtype", "bool int8 uint8 int16 uint16 int32 uint32 int64 float16 float32".split()
)
def test_types_pass_and_64_bit_integers_wrap(configure, dtype):
    configure(1)
    echo = Echo(1, tf.TensorSpec([4], tf.as_dtype(dtype)))
    data = np.array([0, 1, 200, -1], "int64").astype(dtype)
    if dtype == "int64":
        data[1] = 2**35 + 7
    found = np.empty_like(data)
    echo.infeed.fill(1, [data])
    echo.run()
    assert echo.outfeed.take(1, [found]) == 1
    np.testing.assert_array_equal(found, data.astype("int32") if dtype == "int64" else data)


def test_program_reading_further_fails_but_feeds_continue(configure):
    configure(2)
    echo = Echo(2, tf.TensorSpec([1], tf.float32))
    data = np.arange(4, dtype=np.float32)
    with pytest.raises(tf.errors.FailedPreconditionError, match="has not been created"):
        echo.run()
    echo.infeed.fill(3, [data])  # the second group is not complete
    with pytest.raises(tf.errors.OutOfRangeError, match="more elements of an infeed than"):
        echo.run()
    echo.outfeed.drop()
    echo.infeed.fill(4, [data])
    echo.run()
    found = np.zeros_like(data)
    assert echo.outfeed.take(1, [found]) == 2  # more than there is room for
    assert not found.any()
    assert echo.outfeed.take(2, [found]) == 0


def test_array_values_are_copied_at_fill(configure):
    configure(1)
    echo = Echo(1, tf.TensorSpec([16], tf.float32))
    data = np.ones(16, np.float32)
    echo.infeed.fill(1, [data])
    data[:] = 2
    echo.run()
    found = np.empty_like(data)
    echo.outfeed.take(1, [found])
    np.testing.assert_array_equal(found, np.ones(16))


def test_feeds_work_after_configuration_with_other_replicas(configure):
    echo = Echo(1, tf.TensorSpec([1], tf.float32))
    for replicas in (2, 1, 4):
        configure(replicas)
        data = np.arange(replicas, dtype=np.float32)
        echo.infeed.fill(replicas, [data])
        echo.run()
        found = np.empty_like(data)
        assert echo.outfeed.take(1, [found]) == 1
        np.testing.assert_array_equal(found, data)


def test_arrays_that_do_not_hold_elements_are_refused():
    infeed = ArrayInfeed([tf.TensorSpec([2], tf.float32)], 0)
    with pytest.raises(ValueError, match=r"of 3 times float32\(2,\)"):
        infeed.fill(3, [np.zeros((2, 2), np.float32)])
    with pytest.raises(ValueError, match="Expected an array in C order"):
        infeed.fill(2, [np.zeros((2, 4), np.float32)[:, ::2]])
    with pytest.raises(tf.errors.FailedPreconditionError, match="Unsupported datatype complex64"):
        ArrayInfeed([tf.TensorSpec([2], tf.complex64)], 0)


@pytest.mark.lifetimes
def test_native_halves_go_with_program_and_its_feeds(configure):
    configure(1)
    before = native.counts()
    echo = Echo(1, tf.TensorSpec([1], tf.float32))
    echo.infeed.fill(1, [np.ones(1, np.float32)])
    echo.run()
    during = native.counts()
    assert (during.infeeds, during.outfeeds) == (before.infeeds + 1, before.outfeeds + 1)
    del echo
    gc.collect()
    assert native.counts()[2:4] == before[2:4]
