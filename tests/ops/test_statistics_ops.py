"""Tests of histograms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.ops import statistics_ops
from tests.support.programs import replicas

DTYPES = ["float16", "float32"]
LEVELS = [-1.5, -0.5, 0.0, 0.25, 2.0]


def values(*shape, dtype="float32"):
    """Returns values, some of which are levels."""
    generator = np.random.default_rng([*shape])
    x = generator.normal(0, 1.5, shape)
    return np.where(generator.random(shape) < 0.2, generator.choice(LEVELS, shape), x).astype(dtype)


def reference(x, levels, absolute=False):
    x = np.abs(x) if absolute else x
    edges = [-np.inf, *levels, np.inf]
    counts = [np.sum((low <= x) & (x < high)) for low, high in zip(edges, edges[1:])]
    return np.float32(counts)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("absolute", [False, True])
def test_histograms_equal_the_reference(dtype, size, absolute):
    x = values(size, dtype=dtype)
    hist = statistics_ops.histogram(x, np.array(LEVELS, dtype), absolute)
    assert hist.dtype == tf.float32
    np.testing.assert_array_equal(hist, reference(x, LEVELS, absolute))


@pytest.mark.parametrize("dtype", DTYPES)
def test_histograms_are_updated_and_normalized(dtype):
    x, y = values(100, dtype=dtype), values(50, dtype=dtype)
    levels = tf.constant(LEVELS, dtype)
    hist = statistics_ops.histogram_update(statistics_ops.histogram(x, levels), y, levels, True)
    expected = reference(x, LEVELS) + reference(y, LEVELS, absolute=True)
    np.testing.assert_array_equal(hist, expected)
    normalized = statistics_ops.histogram_normalize(hist)
    np.testing.assert_allclose(normalized, expected / 150, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bins", [1, 2, 7])
def test_bins_are_of_equal_width(dtype, bins):
    x = values(30, dtype=dtype)
    levels = statistics_ops.fixed_width_bins(x, bins)
    assert levels.dtype == dtype and levels.shape == [bins]
    expected = np.linspace(x.min().astype(float), x.max().astype(float), bins)
    np.testing.assert_allclose(levels, expected, rtol=0, atol=5e-3 if dtype == "float16" else 1e-6)


def test_bins_of_one_value_have_no_width():
    levels = statistics_ops.fixed_width_bins(tf.fill([4], 3.0), 3)
    np.testing.assert_array_equal(levels, [3, 3, 3])
    np.testing.assert_array_equal(statistics_ops.histogram([3.0] * 4, levels), [0, 0, 0, 4])


def test_levels_may_be_python_numbers():
    hist = statistics_ops.histogram(tf.constant([1, 2, 3], tf.float16), [2, 2.5])
    np.testing.assert_array_equal(hist, [1, 1, 1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_session", [True, False])
def test_histograms_equal_the_reference_on_two_replicas(dtype, in_session):
    x = values(2, 40, dtype=dtype)

    def program():
        own = replicas.own_row(x)
        levels = statistics_ops.fixed_width_bins(own, 4)
        hist = statistics_ops.histogram(own, levels)
        assert hist.shape == [5]
        return levels, hist, statistics_ops.histogram_normalize(hist)

    levels, hist, normalized = replicas.run(2, program, in_session)
    for replica in range(2):
        expected = reference(x[replica], levels[replica])
        np.testing.assert_array_equal(hist[replica], expected)
        np.testing.assert_allclose(normalized[replica], expected / 40)


def test_histograms_are_updated_in_a_loop():
    x = values(1, 40)

    def program():
        def body(i, hist):
            new = statistics_ops.histogram_update(hist, x[0] * tf.cast(i, tf.float32), LEVELS)
            return i + 1, new

        return loops.repeat(5, body, [0, tf.zeros([6])])[1]

    expected = sum(reference(x[0] * np.float32(i), LEVELS) for i in range(5))
    np.testing.assert_array_equal(replicas.run(1, program)[0], expected)


class TestErrors:
    """Mistakes of the user."""

    @pytest.mark.parametrize("wrong", [np.float32(1), np.ones([2, 2], np.float32)])
    def test_other_ranks_are_refused(self, wrong):
        good = tf.ones([3])
        match = "fixed_width_bins expects rank-1 tensor inputs.*inputs of shape"
        with pytest.raises(ValueError, match=match):
            statistics_ops.fixed_width_bins(wrong, 3)
        for arguments in ((wrong, good), (good, wrong)):
            with pytest.raises(ValueError, match="histogram expects rank-1 tensor inputs"):
                statistics_ops.histogram(*arguments)
        for arguments in ((wrong, good, good), (good, wrong, good), (good, good, wrong)):
            with pytest.raises(ValueError, match="histogram_update expects rank-1 tensor inputs"):
                statistics_ops.histogram_update(*arguments)
        with pytest.raises(ValueError, match="histogram_normalize expects rank-1 tensor inputs"):
            statistics_ops.histogram_normalize(wrong)

    def test_other_types_are_refused(self):
        wrong, good = np.ones(3, int), tf.ones([3])
        only = "Only float16 and float32 types are supported for"
        with pytest.raises(ValueError, match=f"{only} fixed_width_bins"):
            statistics_ops.fixed_width_bins(wrong, 3)
        for arguments in ((wrong, good), (good, wrong), (wrong, [1.0])):
            with pytest.raises(ValueError, match=f"{only} histogram computation.*int64"):
                statistics_ops.histogram(*arguments)
            with pytest.raises(ValueError, match=f"{only} histogram update"):
                statistics_ops.histogram_update(good, *arguments)

    def test_mixed_types_are_refused(self):
        with pytest.raises(ValueError, match="same type. Received: inputs of float32 and levels"):
            statistics_ops.histogram(tf.ones([3]), tf.ones([2], tf.float16))

    def test_histograms_that_do_not_fit_are_refused(self):
        x = tf.ones([3])
        with pytest.raises(ValueError, match="hist and levels shapes are incompatible"):
            statistics_ops.histogram_update(tf.ones([3]), x, x)
        wrong = tf.ones([4], tf.float16)
        with pytest.raises(ValueError, match="hist must be of float32 type. Received: float16"):
            statistics_ops.histogram_update(wrong, x, x)
        with pytest.raises(ValueError, match="hist must be of float32 type"):
            statistics_ops.histogram_normalize(wrong)

    @pytest.mark.parametrize("bins", [0, -1])
    def test_a_number_of_bins_below_one_is_refused(self, bins):
        with pytest.raises(ValueError, match=f"n_bins must be at least 1. Received: n_bins={bins}"):
            statistics_ops.fixed_width_bins(tf.ones([3]), bins)
