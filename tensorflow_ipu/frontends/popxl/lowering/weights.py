"""Variables on their way between the host and the replicas, and the host's copies of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.compiler.hooks import plan_hooks
from tensorflow_ipu.compiler.ir.program import SENT_ALIKE_ATTRIBUTE, WEIGHTS_ATTRIBUTE
from tensorflow_ipu.distributed import transport
from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed
from tensorflow_ipu.frontends.common import abstract_arrays
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Constant, Variable
from tensorflow_ipu.runtime import native


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
        """Returns this replica's values, in the function in scope.

        Replicas with the same value share its memory. One that is equal on all is marked, so that
        they also share the updates of it.
        """
        return [
            _sent_alike(value) if variable.layout.is_uniform else value
            for variable, value in zip(self.variables, self._infeed.dequeue())
        ]

    def send(self, values: Sequence[Any]) -> tf.Operation:
        """Sends this replica's values to the host, in the function in scope.

        Args:
            values: the value of each variable.
        """
        return self._outfeed.enqueue(list(values))

    def put(self) -> None:
        """Brings the host's values to the device, before the program that receives them runs."""
        parts = [variable.layout.to_parts(variable.data) for variable in self.variables]
        rows = [
            variable.layout.part_of_replica[self._replicas.start : self._replicas.stop]
            for variable in self.variables
        ]
        self._infeed.fill(len(self._replicas), parts, rows)

    def take(self) -> dict[Variable, np.ndarray]:
        """Returns the replicas' values of each variable: its parts, or all values if all come.

        Where the replicas run in several processes, these meet here: a group of replicas may have
        its first one, or shards of a value, in another process.
        """
        wanted = [self._wanted(variable) for variable in self.variables]
        arrays = [
            np.empty((len(own), *variable.layout.shape_on_device), variable.dtype.as_numpy())
            for variable, own in zip(self.variables, wanted)
        ]
        rows = [
            [own.index(replica) if replica in own else -1 for replica in self._replicas]
            for own in wanted
        ]
        self._outfeed.take(1, arrays, rows)
        if transport.count() == 1:
            return dict(zip(self.variables, arrays))
        return {
            variable: _of_all_processes(variable, array)
            for variable, array in zip(self.variables, arrays)
        }

    def _wanted(self, variable: Variable) -> list[int]:
        """Returns the replicas of this process whose values of a variable come to the host."""
        if transport.count() > 1 or variable.layout.returns_all_replicas:
            return list(self._replicas)
        return variable.layout.holders


def _sent_alike(value: Any) -> Any:
    """Marks a value that the host sends to all replicas of the process."""
    mark = attr_value_pb2.AttrValue(b=True)
    with tf.compat.v1.get_default_graph()._attr_scope({SENT_ALIKE_ATTRIBUTE: mark}):
        return native.ops().ipu_assume_equal_across_replicas(value)


def _of_all_processes(variable: Variable, stored: np.ndarray) -> np.ndarray:
    """Returns the values of a variable in all processes, as `Weights.take` does."""
    joined = transport.joined(tf.constant(stored.reshape(-1).view(np.uint8))).numpy()
    layout = variable.layout
    rows = joined.view(variable.dtype.as_numpy()).reshape(-1, *layout.shape_on_device)
    return rows if layout.returns_all_replicas else rows[layout.holders]


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
        value: its value, its parts, or the value of each replica; None for a variable that is not
            used.
    """
    variable.stale = False
    if value is None:
        return
    if needs_lanes(variable):
        layout = variable.layout
        if layout.returns_all_replicas:
            variable.on_replicas, value = value, value[layout.holders]
        np.copyto(variable.data, layout.from_parts(value), where=layout.is_on_device())
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
    if rows is None:
        rows = layout.to_parts(tensor.data)[layout.part_of_replica]
    return layout.of_replicas(rows)


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
