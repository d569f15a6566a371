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
    np.testing.assert_array_equal(addons.unshard2D(parts, n_1=2, n_2=3, axis_1=1, axis_2=2), X)


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
    for data, tp, rf in ((batches, 4, 2), (batches, 3, 4)):
        with pytest.raises(ValueError, match="must be a divisor"):
            addons.tensor_parallel_input(data, tp, rf)
        with pytest.raises(ValueError, match="must be a divisor"):
            addons.tensor_parallel_output(data, 1, tp, rf, (2,))


@pytest.mark.parametrize(
    ("transfers", "tp", "rf", "batch"), [(3, 2, 4, 1), (1, 2, 4, 1), (3, 1, 1, 2), (2, 2, 2, 3)]
)
def test_outputs_of_replicas_are_samples_in_order(transfers, tp, rf, batch):
    samples = np.arange(transfers * (rf // tp) * batch * 2).reshape(-1, 2)
    by_replica = samples.reshape(transfers, rf // tp, 1, batch, 2)
    stored = by_replica + 100 * np.arange(tp)[:, np.newaxis, np.newaxis]
    output = stored.reshape(transfers, rf, batch, 2)
    output = addons.squeeze_safe(output, (0, 1))
    found = addons.tensor_parallel_output(output, transfers, tp, rf, (2,))
    np.testing.assert_array_equal(found, samples)
    found = addons.tensor_parallel_output(output, transfers, tp, rf, [2], False)
    np.testing.assert_array_equal(found, np.stack([samples + 100 * i for i in range(tp)], 1))
    first = addons.tensor_parallel_output(
        output, transfers, tp, rf, (2,), true_num_host_transfers=1
    )
    np.testing.assert_array_equal(first, samples[: (rf // tp) * batch])
    with pytest.raises(ValueError, match="Expected an array of"):
        addons.tensor_parallel_output(output, transfers, tp, rf, (5,))


def test_axes_are_padded_squeezed_and_checked():
    assert addons.pad_axis(X, 5, -1, 7)[0, 0].tolist() == [0, 1, 2, 7, 7]
    assert addons.squeeze_safe(X[:1], 0).shape == (4, 3)
    assert addons.squeeze_safe(X, 0).shape == X.shape
    x = np.zeros((1, 2, 1, 3, 1))
    for axis, shape in (
        (None, (2, 3)),
        (-1, (1, 2, 1, 3)),
        ((0, -5, 1, 2), (2, 3, 1)),
        ([4, 3], (1, 2, 1, 3)),
        ([], x.shape),
    ):
        assert addons.squeeze_safe(x, axis).shape == shape
    with pytest.raises(IndexError, match="axis 5"):
        addons.squeeze_safe(x, (0, 5))
    with pytest.raises(IndexError, match="axis 3"):
        addons.handle_negative_axis(X, 3)
