"""`RemoteMemory`: the entries of a remote buffer, as a variable of the program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.compiler.ir.program import REMOTE_BUFFER_ATTRIBUTE
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer


class RemoteMemory:
    """The entries of a remote buffer: each replica has its own."""

    def __init__(self, buffer: RemoteBuffer) -> None:
        """Makes a variable for the entries, on the device in scope.

        Args:
            buffer: the buffer.
        """
        zeros = tf.zeros([buffer.entries, *buffer.tensor_shape], tf_type(buffer.tensor_dtype))
        self._variable = tf.Variable(zeros, name=f"remote_buffer_{buffer.remote_buffer_id}")

    def load(self, entry: Any) -> Any:
        """Returns an entry, in the function in scope.

        Args:
            entry: its number, a tensor.
        """
        with self._marked():
            return tf.raw_ops.ResourceGather(
                resource=self._variable.handle,
                indices=tf.cast(entry, tf.int32),
                dtype=self._variable.dtype,
            )

    def store(self, entry: Any, value: Any) -> tf.Operation:
        """Replaces an entry, in the function in scope.

        Args:
            entry: its number, a tensor.
            value: what it holds from now on.
        """
        with self._marked():
            return tf.raw_ops.ResourceScatterUpdate(
                resource=self._variable.handle,
                indices=tf.reshape(tf.cast(entry, tf.int32), [1]),
                updates=tf.expand_dims(value, 0),
            )

    @contextlib.contextmanager
    def _marked(self) -> Iterator[None]:
        """Marks the ops inside as loads and stores of remote memory, of a variable with a name."""
        mark = attr_value_pb2.AttrValue(b=True)
        graph = tf.compat.v1.get_default_graph()
        graph.watch_variable(self._variable)
        with graph._attr_scope({REMOTE_BUFFER_ATTRIBUTE: mark}):
            yield
