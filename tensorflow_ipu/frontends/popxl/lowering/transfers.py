"""Data of the host during runs: streams and their feeds, and entries of remote buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.ops import resource_variable_ops

from tensorflow_ipu.compiler.ir.program import REMOTE_BUFFER_ATTRIBUTE
from tensorflow_ipu.feeds import native_feeds
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl import utils
from tensorflow_ipu.frontends.popxl.dtypes import plain, tf_type
from tensorflow_ipu.frontends.popxl.ir import Ir
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.runtime import native


class RemoteMemory:
    """The entries of a remote buffer: each replica has its own."""

    def __init__(self, buffer: RemoteBuffer) -> None:
        """Makes a variable for the entries, on the device in scope.

        Args:
            buffer: the buffer.
        """
        shape, dtype = [buffer.entries, *buffer.tensor_shape], tf_type(buffer.tensor_dtype)
        self._variable = resource_variable_ops.UninitializedVariable(
            trainable=False,
            name=f"remote_buffer_{buffer.remote_buffer_id}",
            shape=shape,
            dtype=dtype,
        )
        native.ops().ipu_make_remote_memory(self._variable.handle, dtype=dtype, shape=shape)

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
            value: its new value.
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


_Stream = Any


class Transfers:
    """Host transfers of one run of an Ir, in both directions."""

    def __init__(self, ir: Ir) -> None:
        """Notes the streams of an Ir, which no longer changes.

        Args:
            ir: the Ir.

        Raises:
            popart.popart_exception: If the device does not have the type of a stream.
        """
        self._loaded: set[HostToDeviceStream] = ir.get_all_h2d_streams()
        self._stored: set[DeviceToHostStream] = ir.get_all_d2h_streams()
        self._transfers = ir.num_host_transfers
        self._replicas = ir.instance_replication_factor
        for stream in (*self._loaded, *self._stored):
            _check_type(stream)
        self._leading = tuple(n for n in (self._transfers, self._replicas) if n > 1)

    def full_shape(self, shape: Iterable[int]) -> tuple[int, ...]:
        """Returns the shape of an array with the elements of all transfers and replicas of a run.

        Args:
            shape: the shape of one element.
        """
        return (*self._leading, *shape)

    def elements(
        self, inputs: Mapping[HostToDeviceStream, Any], downcast: bool
    ) -> dict[HostToDeviceStream, np.ndarray]:
        """Returns the elements of each stream in C order, with the replicas in turn.

        Args:
            inputs: an array for each stream.
            downcast: whether data of 64 bits becomes data of 32 bits.

        Raises:
            ValueError: If streams are missing or unknown, or a shape does not fit.
        """
        _check_streams("input", self._loaded, inputs)
        elements = {}
        for stream, data in inputs.items():
            array = utils.to_numpy(data, downcast=downcast, copy=False)
            self._check_shape(stream, array)
            rows = array[: self._transfers] if self._transfers > 1 else array
            rows = rows.reshape(self._transfers * self._replicas, *stream.shape)
            elements[stream] = np.asarray(rows, stream.dtype.as_numpy())
        return elements

    def check_outputs(self, outputs: Mapping[DeviceToHostStream, np.ndarray]) -> None:
        """Refuses arrays that outputs do not fit into.

        Args:
            outputs: an array for each stream.

        Raises:
            ValueError: If streams are missing or unknown, or a shape does not fit.
        """
        _check_streams("output", self._stored, outputs)
        for stream, array in outputs.items():
            self._check_shape(stream, array)

    def new_outputs(self) -> dict[DeviceToHostStream, np.ndarray]:
        """Returns an array of zeros for each stream that is stored to."""
        return {
            stream: np.zeros((*self._leading, *stream.shape), stream.dtype.as_numpy())
            for stream in self._stored
        }

    def targets(
        self, outputs: Mapping[DeviceToHostStream, np.ndarray]
    ) -> dict[DeviceToHostStream, np.ndarray]:
        """Returns arrays that a run can store to, as many rows as a replica may store.

        Args:
            outputs: the arrays that are to be filled. Those that have the type and the order of
                elements in memory are not copied.
        """
        return {stream: self._target(stream, array) for stream, array in outputs.items()}

    def fill(
        self,
        outputs: Mapping[DeviceToHostStream, np.ndarray],
        targets: Mapping[DeviceToHostStream, np.ndarray],
        stored: Mapping[DeviceToHostStream, int],
    ) -> None:
        """Copies the stored tensors of a run into arrays.

        Args:
            outputs: the arrays.
            targets: the buffers of the run, from `targets`.
            stored: how many elements of each stream each replica has stored.

        Raises:
            RuntimeError: If a stream has more elements than one run may store.
        """
        for stream, count in stored.items():
            if count > self._transfers:
                raise RuntimeError(
                    f"The program stored {count} tensors to {stream!r}, more than one run "
                    f"may: num_host_transfers={self._transfers}."
                )
            array, target = outputs[stream], targets[stream]
            if not count or np.may_share_memory(array, target):
                continue
            found = plain(target) if array.dtype.names is None else target
            if self._transfers > 1:
                array[:count] = found[:count].reshape(count, *array.shape[1:])
            else:
                array[...] = found.reshape(array.shape)

    def _target(self, stream: DeviceToHostStream, array: np.ndarray) -> np.ndarray:
        """Returns an array in which the replicas have the second dimension if there are several."""
        replicas = (self._replicas,) if self._replicas > 1 else ()
        shape = (self._transfers, *replicas, *stream.shape)
        dtype = np.dtype(stream.dtype.as_numpy())
        if array.dtype != dtype or not array.flags.c_contiguous or not array.flags.writeable:
            return np.empty(shape, dtype)
        return (array[: self._transfers] if self._transfers > 1 else array).reshape(shape)

    def _check_shape(self, stream: _Stream, array: np.ndarray) -> None:
        """Refuses an array of another shape than transfers, replicas and stream make."""
        shape = tuple(array.shape)
        leading = self._leading
        if shape == (*leading, *stream.shape):
            return
        message = (
            f"for {stream!r}: expected {(*leading, *stream.shape)} (num_host_transfers="
            f"{self._transfers}, replicas={self._replicas}). Received: {shape}"
        )
        own = shape[len(leading) :]
        if len(shape) < len(leading):
            raise ValueError(f"Shape mismatch {message}")
        if self._transfers > 1 and shape[0] < self._transfers:
            raise ValueError(f"The first dimension is not large enough {message}")
        replica_axis = 1 if self._transfers > 1 else 0
        if self._replicas > 1 and shape[replica_axis] != self._replicas:
            raise ValueError(f"The replica dimension is the wrong size {message}")
        if own != stream.shape and not (np.prod(own, dtype=int) == 1 == np.prod(stream.shape)):
            raise ValueError(f"Shape mismatch {message}")


def _check_type(stream: _Stream) -> None:
    """Refuses types that do not pass between the host and the device."""
    if tf_type(stream.dtype) not in native_feeds.TYPES:
        raise popart_exception(
            f"{stream!r} cannot pass between the host and the device, which has no "
            f"{stream.dtype.name}. Make it a stream of another type, such as popxl.float32, and "
            "cast the data."
        )


def _check_streams(what: str, expected: set[Any], given: Mapping[Any, Any]) -> None:
    """Refuses other streams than those that the program uses."""
    if given.keys() == expected:
        return
    unexpected, missing = set(given) - expected, expected - set(given)
    found = [f"Unexpected {what}s: {_names(unexpected)}."] if unexpected else []
    found += [f"Missing {what}s: {_names(missing)}."] if missing else []
    raise ValueError(f"{' '.join(found)} The program uses the {what} streams: {_names(expected)}.")


def _names(streams: set[Any]) -> str:
    return ", ".join(sorted(map(repr, streams))) or "none"
