"""The parts of gradient accumulation: methods, types, sums over mini-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import accumulators, ipu_compiler, loops, scopes
from tensorflow_ipu.api.accumulators import accumulator_dtype
from tensorflow_ipu.api.gradient_accumulation import (
    GradientAccumulationReductionMethod,
    MiniBatches,
)
from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tests.support.models import training
from tests.support.models.training import tf1

SUM, MEAN, RUNNING_MEAN = GradientAccumulationReductionMethod


def test_methods_are_those_of_the_reference() -> None:
    assert [method.name for method in GradientAccumulationReductionMethod] == [
        "SUM",
        "MEAN",
        "RUNNING_MEAN",
    ]


@pytest.mark.parametrize("value", [MEAN, "MEAN", "mean", "Mean"])
def test_methods_are_parsed_by_name_value_and_member(value: Any) -> None:
    assert GradientAccumulationReductionMethod.parse(value) is MEAN


@pytest.mark.parametrize("value", ["average", "", 1, None])
def test_unknown_methods_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="as one of GradientAccumulationReductionMethod"):
        GradientAccumulationReductionMethod.parse(value)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (None, tf.float16),
        (tf.float32, tf.float32),
        (np.float32, tf.float32),
        ("float32", tf.float32),
        (lambda v: tf.float32 if v.shape.rank == 1 else None, tf.float32),
        (lambda v: np.float32, tf.float32),
        (lambda v: None, tf.float16),
    ],
)
def test_the_accumulator_type_follows_the_argument(dtype: Any, expected: tf.DType) -> None:
    assert accumulator_dtype(dtype, tf.Variable(tf.zeros([3], tf.float16))) == expected


@pytest.mark.parametrize("dtype", ["huge", 3.5, lambda v: "huge"])
def test_unsupported_accumulator_types_are_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match="type of an accumulator must be None"):
        accumulator_dtype(dtype, tf.Variable([1.0]))


def _totals(
    values: np.ndarray,
    count: int,
    accumulate: Callable[[MiniBatches, tf.Tensor], Any],
    runs: int = 1,
    replicas: int = 1,
) -> np.ndarray:
    """Returns the totals of each update of a loop over values."""
    description = {
        "optimizer": "Test",
        "name": "test",
        "num_mini_batches": count,
        "wrapped_by": None,
        "memory": {},
    }
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(values))
        outfeed = IPUOutfeedQueue()

        def body(x: tf.Tensor) -> tf.Operation:
            batches = MiniBatches(count, ACCUMULATION_ATTRIBUTE, description, "test")
            total = accumulate(batches, x)
            return batches.then_update(lambda: [outfeed.enqueue(total.value())])

        iterations = len(values) // (runs * replicas)
        with scopes.ipu_scope(training.IPU):
            launch = ipu_compiler.compile(lambda: loops.repeat(iterations, body, None, infeed))
        dequeue = outfeed.dequeue()
        with tf1.Session() as session:
            session.run(infeed.initializer)
            for _ in range(runs):
                session.run(launch)
            return session.run(dequeue)


def _values(count: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 3)).astype(dtype)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("method", GradientAccumulationReductionMethod)
def test_totals_equal_sums_or_means(
    method: GradientAccumulationReductionMethod, count: int
) -> None:
    training.configure()
    x = _values(6)
    totals = _totals(x, count, lambda b, v: b.accumulate(v, tf.float32, method))
    groups = x.astype(np.float64).reshape(-1, count, 3)
    expected = groups.sum(1) if method is SUM else groups.mean(1)
    np.testing.assert_allclose(totals, expected, rtol=1e-6, atol=1e-6)


def test_running_mean_stays_in_range_of_its_type() -> None:
    # A sum does not: float16 ends at 65504, where the device clips.
    training.configure()
    x = np.full([64, 3], 3000, np.float16)
    for method, expected in ((SUM, 65504), (MEAN, 3000), (RUNNING_MEAN, 3000)):
        totals = _totals(x, 64, lambda b, v, m=method: b.accumulate(v, tf.float16, m))
        assert totals.dtype == np.float16
        np.testing.assert_allclose(totals, np.full([1, 3], expected), rtol=5e-3)


def test_totals_may_have_another_type() -> None:
    training.configure()
    x = np.full([64, 3], 3000, np.float16)
    totals = _totals(x, 64, lambda b, v: b.accumulate(v, tf.float32))
    assert totals.dtype == np.float32
    np.testing.assert_array_equal(totals, np.full([1, 3], 192000.0))


def test_state_equals_that_of_run_and_of_replica() -> None:
    training.configure(2)
    x = _values(24)
    totals = _totals(x, 3, lambda b, v: b.accumulate(v, tf.float32), runs=2, replicas=2)
    # Updates first, then replicas. Elements go to the replicas in turn.
    expected = x.astype(np.float64).reshape(4, 3, 2, 3).sum(1)
    np.testing.assert_allclose(totals, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("apart", [True, False])
def test_reset_waits_for_reads_of_the_update(apart: bool) -> None:
    """Not for its end, unless a function that the update calls reads the accumulator."""
    graphs = []

    def update() -> list[tf.Operation]:
        graphs.append(tf1.get_default_graph())
        read = total.value() if apart else tf.cond(tf.constant(True), total.value, total.value)
        return [tf.identity(read, name="late").op]

    with tf.Graph().as_default():
        batches = MiniBatches(2, ACCUMULATION_ATTRIBUTE, {}, "test")
        total = batches.accumulate(tf.ones([3]), tf.float32)
        batches.then_update(update)
    zeros = [op for op in graphs[0].get_operations() if op.name.startswith("zeros")]
    waits_for = [op.name for op in zeros[0].control_inputs]
    assert waits_for == ["ReadVariableOp" if apart else "late"]


def test_slices_are_made_dense() -> None:
    def accumulate(batches: MiniBatches, x: tf.Tensor) -> Any:
        rows = tf.IndexedSlices(tf.stack([x, x]), tf.constant([0, 2]), tf.constant([3, 3]))
        return batches.accumulate(rows, tf.float32)

    training.configure()
    x = _values(2)
    totals = _totals(x, 2, accumulate)
    np.testing.assert_allclose(totals[0][[0, 2]], np.stack([x.sum(0)] * 2), rtol=1e-6)
    np.testing.assert_array_equal(totals[0][1], np.zeros(3))


def test_the_index_counts_mini_batches() -> None:
    training.configure()
    totals = _totals(_values(8), 4, lambda b, v: b.accumulate(b.index * 10 + 1, tf.int32))
    np.testing.assert_array_equal(totals, [64, 64])


def test_a_shape_that_is_not_known() -> None:
    with pytest.raises(ValueError, match="needs a tensor of known shape"), tf.Graph().as_default():
        accumulators.program_variable([None, 3], tf.float32, "total")


def test_accumulating_outside_of_a_program_is_refused() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        total = accumulators.Accumulator([3], tf.float32, "total")
        with pytest.raises(tf.errors.FailedPreconditionError, match="run of an IPU program only"):
            session.run(total.value())
