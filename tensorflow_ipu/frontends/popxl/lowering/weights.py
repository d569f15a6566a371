"""`Weights`: variables whose values differ between replicas, on their way from and to the host.

What replicas have in a variable stays on the device as long as one program is loaded. So these
values travel through feeds, in other parts of the same program: each replica has a lane.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.compiler.ir.program import WEIGHTS_ATTRIBUTE
from tensorflow_ipu.distributed import transport
from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed
from tensorflow_ipu.frontends.popxl.lowering.types import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Variable


def needs_lanes(variable: Variable) -> bool:
    """Returns whether replicas, or the host and a replica, have different values of a variable.

    Args:
        variable: the variable.
    """
    return variable.entry is not None or not variable.layout.is_uniform


@contextlib.contextmanager
def moving() -> Iterator[None]:
    """Marks the ops inside as those of launches that move values: plans are of `run` alone."""
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
        """Returns what each replica has sent, for each variable in the order of the replicas.

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
    """Returns what the replicas of all processes have sent, the bytes of each process in turn."""
    if transport.count() == 1:
        return stored
    return transport.joined(tf.constant(stored.reshape(-1).view(np.uint8))).numpy()
