"""Results of steps, without the padding."""

from __future__ import annotations

import numpy as np
import pytest

from tensorflow_ipu.keras_layers.models.execution import ReplicaLogs, joined

ROWS = np.array([[3, 3], [2, 0]])


def test_outputs_are_joined_without_the_padding() -> None:
    value = np.arange(2 * 2 * 3 * 2).reshape(2, 2, 3, 2)
    found = joined(value, ROWS, 3)
    np.testing.assert_array_equal(found, [*value[0, 0], *value[0, 1], *value[1, 0, :2]])


@pytest.mark.parametrize("shape", [(), (1,), (6, 2)])
def test_outputs_without_rows_need_whole_batches(shape: tuple[int, ...]) -> None:
    value = np.arange(4 * np.prod(shape, dtype=int)).reshape(2, 2, *shape)
    whole = np.array([[3, 3], [3, 0]])
    expected = [np.atleast_1d(value[place]) for place in ((0, 0), (0, 1), (1, 0))]
    np.testing.assert_array_equal(joined(value, whole, 3), np.concatenate(expected))
    with pytest.raises(ValueError, match="partial batch of 2 instead of 3 rows"):
        joined(value, ROWS, 3)


def test_without_padding_everything_is_joined() -> None:
    value = np.arange(24).reshape(2, 2, 3, 2)
    np.testing.assert_array_equal(joined(value, None, 0), value.reshape(12, 2))
    np.testing.assert_array_equal(joined(value[:, :, 0, 0], None, 0), [0, 6, 12, 18])


def test_logs_are_those_of_last_step_with_data() -> None:
    logs = ReplicaLogs(3)
    rows = np.array([[4, 4, 0], [2, 0, 0]])
    logs.add_execution({"a": np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]])}, rows)
    values, seen = logs.latest()
    assert values == [{"a": 3.0}, {"a": 2.0}]
    assert seen.tolist() == [6, 4]
    # An execution without data for a replica changes nothing.
    logs.add_execution({"a": np.array([[5.0, 0.0, 0.0]])}, np.array([[4, 0, 0]]))
    values, seen = logs.latest()
    assert values == [{"a": 5.0}, {"a": 2.0}]
    assert seen.tolist() == [10, 4]


def test_values_at_the_end_of_several_steps() -> None:
    logs = ReplicaLogs(2)
    rows = np.array([[4, 4], [4, 4], [4, 4], [1, 0], [0, 0], [0, 0]])
    # Of three steps each.
    logs.add_execution({"a": np.array([[6.0, 3.0], [2.0, 0.0]])}, rows)
    values, seen = logs.latest()
    assert values == [{"a": 2.0}, {"a": 3.0}]
    assert seen.tolist() == [13, 12]
