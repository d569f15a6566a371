"""Arrays that are split for replicas, and joined again."""

from __future__ import annotations

import numpy as np
import popxl_addons as addons
import pytest

X = np.arange(24).reshape(2, 4, 3)


def test_parts_are_joined_again():
    parts = addons.shard(X, 2, -2)
    assert parts.shape == (2, 2, 2, 3)
    np.testing.assert_array_equal(parts[1], X[:, 2:])
    np.testing.assert_array_equal(addons.unshard(parts, 1), X)
    parts = addons.shard2D(X, 2, 3, 1, 2)
    np.testing.assert_array_equal(parts[4], X[:, 2:, 1:2])
    np.testing.assert_array_equal(addons.unshard2D(parts, 2, 3, 1, 2), X)


def test_parts_are_repeated_in_two_orders():
    x = np.arange(4)
    assert addons.repeat_shard(x, 2, 2, 0).tolist() == [[0, 1], [2, 3], [0, 1], [2, 3]]
    found = addons.repeat_shard(x, 2, 2, 0, "strided")
    assert found.tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]
    with pytest.raises(ValueError, match="sharded_tensor must be"):
        addons.repeat_shard(x, 2, 2, 0, "other")
    assert addons.repeat(x, 3).shape == (3, 4) and addons.repeat_axis(x, 3).shape == (12,)


def test_replicas_of_one_batch_follow_each_other():
    batches = np.arange(8).reshape(4, 2)
    found = addons.tensor_parallel_input(batches, 2, 4)
    assert found.shape == (2, 4, 2)
    np.testing.assert_array_equal(found[1], batches[[2, 2, 3, 3]])
    shifted = addons.tensor_parallel_input(batches, 2, 4, lambda array, i: array - i)
    np.testing.assert_array_equal(shifted[0], batches[[0, 0, 1, 1]] - [[0], [1], [0], [1]])
    assert addons.tensor_parallel_input(batches, 1, 1).shape == (4, 2)
    np.testing.assert_array_equal(addons.tensor_parallel_output(found, 2, 4), batches)
    assert addons.tensor_parallel_output(found[0], 2, 4).tolist() == batches[:2].tolist()
    joined = addons.tensor_parallel_output(found, 2, 4, lambda parts: np.concatenate(parts, 1))
    np.testing.assert_array_equal(joined, np.concatenate([batches, batches], 1))
    assert addons.tensor_parallel_output(batches, 1, 1) is batches
    for transfer in (addons.tensor_parallel_input, addons.tensor_parallel_output):
        for tp, rf in ((4, 2), (3, 4)):
            with pytest.raises(ValueError, match="must be a divisor"):
                transfer(batches, tp, rf)
    with pytest.raises(ValueError, match="Expected an array"):
        addons.tensor_parallel_output(batches, 1, 3)


def test_axes_are_padded_squeezed_and_checked():
    assert addons.pad_axis(X, 5, -1, 7)[0, 0].tolist() == [0, 1, 2, 7, 7]
    assert addons.squeeze_safe(X[:1], 0).shape == (4, 3)
    assert addons.squeeze_safe(X, 0).shape == X.shape
    with pytest.raises(IndexError, match="axis 3"):
        addons.handle_negative_axis(X, 3)
