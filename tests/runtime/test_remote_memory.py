"""Values of remote buffers: entries that are loaded and stored without copies."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from tensorflow_ipu.runtime import native

SHAPE = (3, 4, 2)


def _made(dtype=tf.float32):
    with tf.device("cpu"):
        variable = resource_variable_ops.UninitializedVariable(shape=SHAPE, dtype=dtype)
        native.ops().ipu_make_remote_memory(variable.handle, dtype=dtype, shape=SHAPE)
    return variable


def _load(variable, entry):
    load = native.ops().ipu_remote_load
    return load(variable.handle, entry, dtype=variable.dtype)


def _store(variable, entry, value):
    native.ops().ipu_remote_store(variable.handle, entry, value)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.int32, tf.uint8, tf.bool])
def test_entries_are_zero_until_they_are_stored(dtype):
    variable = _made(dtype)
    value = tf.cast(tf.ones(SHAPE[1:]), dtype)
    _store(variable, 1, value)
    found = [_load(variable, entry).numpy() for entry in range(3)]
    expected = np.zeros(SHAPE, dtype.as_numpy_dtype)
    expected[1] = 1
    np.testing.assert_array_equal(found, expected)
    assert [entry.dtype for entry in found] == [expected.dtype] * 3


def test_loaded_values_outlive_a_store():
    variable = _made()
    _store(variable, 0, tf.ones(SHAPE[1:]))
    loaded = _load(variable, 0)
    _store(variable, 0, tf.zeros([1, *SHAPE[1:]]))
    np.testing.assert_array_equal(loaded, np.ones(SHAPE[1:]))
    np.testing.assert_array_equal(_load(variable, 0), np.zeros(SHAPE[1:]))


def test_entry_is_a_copy_of_a_part():
    """It does not keep the larger tensor alive, whose part it would be."""
    variable, whole = _made(), tf.reshape(tf.range(24.0), SHAPE)
    for entry, row in enumerate(tf.unstack(whole)):
        _store(variable, entry, row)
    np.testing.assert_array_equal([_load(variable, entry) for entry in range(3)], whole)


@pytest.mark.parametrize("entry", [-1, 3])
def test_entries_that_are_not_there_are_refused(entry):
    message = f"from 0 to 2. Received: {entry}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _load(_made(), entry)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _store(_made(), entry, tf.zeros(SHAPE[1:]))


@pytest.mark.parametrize("value", [tf.zeros([4, 3]), tf.zeros(SHAPE[1:], tf.int32)])
def test_values_of_another_form_are_refused(value):
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not match the entries"):
        _store(_made(), 0, value)


def test_buffers_need_entries_of_numbers():
    with tf.device("cpu"):
        variable = resource_variable_ops.UninitializedVariable(shape=(), dtype=tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="a dimension for entries"):
            native.ops().ipu_make_remote_memory(variable.handle, dtype=tf.float32, shape=())


def test_ordinary_variables_have_rows_as_entries():
    with tf.device("cpu"):
        variable = tf.Variable(tf.ones(SHAPE))
    before, loaded = variable.read_value(), _load(variable, 2)
    _store(variable, 2, tf.zeros(SHAPE[1:]))
    np.testing.assert_array_equal(before, np.ones(SHAPE))
    np.testing.assert_array_equal(loaded, np.ones(SHAPE[1:]))
    np.testing.assert_array_equal(variable[2], np.zeros(SHAPE[1:]))
    np.testing.assert_array_equal(variable[:2], np.ones((2, *SHAPE[1:])))
