"""Branches of a program for batches with different numbers of rows."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers import partial_batches

SIZES = (4, 2, 0)


@tf.function
def _run(mark: tf.Tensor, rows: tf.Tensor) -> dict[str, tf.Tensor]:
    def of(size: int) -> dict[str, tf.Tensor]:
        real = partial_batches.without_padding(rows, 4, size)
        return {"sum": tf.reduce_sum(real), "rows": size}

    return partial_batches.branches(mark, SIZES, of)


@pytest.mark.parametrize(("mark", "expected"), [(0, (10.0, 4)), (1, (3.0, 2)), (2, (0.0, 0))])
def test_the_branch_for_a_number_of_rows_runs(mark: int, expected: tuple[float, int]) -> None:
    found = _run(tf.constant(mark), tf.constant([1.0, 2.0, 3.0, 4.0]))
    assert (float(found["sum"]), int(found["rows"])) == expected


def test_state_changes_in_the_branch_that_runs_only() -> None:
    count = tf.Variable(0)

    @tf.function
    def counted(mark: tf.Tensor) -> tf.Tensor:
        return partial_batches.branches(mark, SIZES, count.assign_add)

    for mark in (0, 1, 1, 2):
        counted(tf.constant(mark))
    assert int(count) == 8


@pytest.mark.parametrize("mark", [0, 1, 2])
def test_gradients_are_those_of_real_rows(mark: int) -> None:
    rows = tf.constant([1.0, 2.0, 3.0, 4.0])

    @tf.function
    def gradient() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = partial_batches.branches(
                tf.constant(mark),
                SIZES,
                lambda size: tf.reduce_mean(partial_batches.without_padding(rows, 4, size) ** 2),
                differentiated=True,
            )
        return tape.gradient(loss, rows)

    expected = [[0.5, 1.0, 1.5, 2.0], [1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert gradient().numpy().tolist() == expected[mark]


def test_values_must_have_one_shape() -> None:
    @tf.function
    def wrong(mark: tf.Tensor) -> tf.Tensor:
        return partial_batches.branches(mark, SIZES, lambda size: tf.zeros([size, 3]))

    with pytest.raises(ValueError, match=r"partial batch of 2 .* \(2, 3\) .* \(4, 3\)"):
        wrong(tf.constant(0))


def test_masks_and_what_has_no_rows() -> None:
    rows, scalar, other = tf.ones([4, 3]), tf.constant(1.0), tf.ones([3, 4])
    rows._keras_mask = tf.constant([True, False, True, True])
    found = partial_batches.without_padding({"a": rows, "b": (scalar, other), "c": None}, 4, 2)
    assert found["a"].shape == (2, 3)
    assert found["a"]._keras_mask.numpy().tolist() == [True, False]
    assert found["b"][0] is scalar and found["b"][1] is other
    assert found["c"] is None


def test_step_gets_the_real_rows_and_no_marks() -> None:
    step = partial_batches.whole_step(lambda data: tf.reduce_sum(data[0]) + data[1][0], SIZES)
    data = (tf.constant([1.0, 2.0, 3.0, 4.0]), tf.constant([10.0, 0.0, 0.0, 0.0]))
    run = tf.function(step)
    assert [float(run((data, (tf.constant(mark),)))) for mark in range(3)] == [20.0, 13.0, 0.0]
