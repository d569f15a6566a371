"""Variables on their way between the host and the replicas, and the host's copies of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.compiler.hooks import plan_hooks
from tensorflow_ipu.compiler.ir.program import WEIGHTS_ATTRIBUTE
from tensorflow_ipu.distributed import transport
from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed
from tensorflow_ipu.frontends.common import abstract_arrays
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Constant, Variable


def needs_lanes(variable: Variable) -> bool:
    """Returns whether replicas, or the host and a replica, have different values of a variable.

    Args:
        variable: the variable.
    """
    return variable.entry is not None or not variable.layout.is_uniform


@contextlib.contextmanager
def moving() -> Iterator[None]:
    """Marks the ops inside as weight transfers, which are not part of the plan of `run`."""
    mark = attr_value_pb2.AttrValue(b=True)
    with tf.compat.v1.get_default_graph()._attr_scope({WEIGHTS_ATTRIBUTE: mark}):
        yield


class Weights:
    """The feeds of variables whose values differ between replicas.

    Attributes:
        variables: The variables.
    """

    def __init__(self, variables: Sequence[Variable], ordinal: int) -> None:
        """Makes the feeds.

        Args:
            variables: the variables, at least one.
            ordinal: of the TensorFlow device.
        """
        ir = variables[0].ir
        self.variables = tuple(variables)
        first = ir.instances.index * ir.instance_replication_factor
        self._replicas = range(first, first + ir.instance_replication_factor)
        specs = [tf.TensorSpec(v.layout.shape_on_device, tf_type(v.dtype)) for v in self.variables]
        self._infeed = ArrayInfeed(specs, ordinal)
        self._outfeed = ArrayOutfeed(ordinal)

    def receive(self) -> list[Any]:
        """Returns this replica's values, in the function in scope."""
        return list(self._infeed.dequeue())

    def send(self, values: Sequence[Any]) -> tf.Operation:
        """Sends this replica's values to the host, in the function in scope.

        Args:
            values: the value of each variable.
        """
        return self._outfeed.enqueue(list(values))

    def put(self) -> None:
        """Brings the host's values to the device, before the program that receives them runs."""
        rows = slice(self._replicas.start, self._replicas.stop)
        values = [variable.layout.to_device(variable.data)[rows] for variable in self.variables]
        self._infeed.fill(len(self._replicas), [np.ascontiguousarray(array) for array in values])

    def take(self) -> dict[Variable, np.ndarray]:
        """Returns the fetched values of each variable, in replica order.

        Where the replicas run in several processes, these meet here: a group of replicas may have
        its first one, or shards of a value, in another process.
        """
        arrays = [
            np.empty((len(self._replicas), *v.layout.shape_on_device), v.dtype.as_numpy())
            for v in self.variables
        ]
        self._outfeed.take(1, arrays)
        return {
            variable: _of_all_processes(array)
            .view(variable.dtype.as_numpy())
            .reshape(-1, *variable.layout.shape_on_device)
            for variable, array in zip(self.variables, arrays)
        }


def _of_all_processes(stored: np.ndarray) -> np.ndarray:
    """Returns the values of all processes' replicas, joined process by process."""
    if transport.count() == 1:
        return stored
    return transport.joined(tf.constant(stored.reshape(-1).view(np.uint8))).numpy()


def is_writable(tensor: Constant | Variable) -> bool:
    """Returns whether the host's copy is no file that is open for reading only.

    Args:
        tensor: the variable or constant.
    """
    return not isinstance(tensor.data, np.memmap) or tensor.data.flags.writeable


def check_writable(variable: Variable) -> None:
    """Refuses to write into a file that is open for reading.

    Args:
        variable: the variable whose host copy may be such a file.

    Raises:
        Exception: If it is.
    """
    if not is_writable(variable):
        raise Exception(
            f"{variable!r} is a read-only memmap, so its value cannot be brought to the host. Open "
            "the file with mode='r+'."
        )


def update(variable: Variable, value: np.ndarray | None) -> None:
    """Updates the host's copy of a variable with its fetched value.

    Args:
        variable: the variable.
        value: its value, or the value of each replica; None for a variable that is not used.
    """
    variable.stale = False
    if value is None:
        return
    if needs_lanes(variable):
        variable.on_replicas, layout = value, variable.layout
        np.copyto(variable.data, layout.from_device(value), where=layout.is_on_device())
    else:
        variable.data[...] = value
    if isinstance(variable.data, np.memmap):
        variable.data.flush()


def host_value(tensor: Constant | Variable) -> np.ndarray:
    """Returns the host's value of a variable or constant.

    Args:
        tensor: the variable or constant.
    """
    if abstract_arrays.is_abstract(tensor.data) and abstract_arrays.plans_only():
        plan_hooks.need(repr(tensor))
    if not isinstance(tensor, Variable) or not tensor.layout.returns_all_replicas:
        return tensor.data
    rows = tensor.on_replicas
    layout = tensor.layout
    return layout.of_replicas(layout.to_device(tensor.data) if rows is None else rows)


def value_for(tensor: Any, value: Any) -> np.ndarray:
    """Returns a value for a variable, of its shape and type.

    Args:
        tensor: the variable.
        value: the value from the user.

    Raises:
        TypeError: If it is no variable, or the type differs.
        ValueError: If the shape differs.
        NotImplementedError: If the values of all replicas come to the host.
    """
    if not isinstance(tensor, Variable):
        raise TypeError(
            f"Tensor {getattr(tensor, 'id', tensor)} is not of type Variable. Received: "
            f"{type(tensor).__name__}"
        )
    if tensor.layout.returns_all_replicas:
        raise NotImplementedError(
            f"Writing {tensor!r} is not yet supported: its retrieval_mode is 'all_replicas'. Make "
            "it with 'one_per_group'."
        )
    if isinstance(value, (bool, int, float)):
        if tensor.dtype.is_float8:
            raise TypeError(f"A number cannot be a value for {tensor!r}: pass codes.")
        value = np.array(value, tensor.dtype.as_numpy())
    array = value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
    if array.dtype != np.dtype(tensor.dtype.as_numpy()):
        raise TypeError(
            f"The dtype of the array, {array.dtype}, must match the equivalent type of {tensor!r}."
        )
    if array.shape != tensor.shape_on_host:
        raise ValueError(
            f"The shape of the input array, {array.shape}, must be that of the variable on the "
            f"host: {tensor.shape_on_host}."
        )
    return array
