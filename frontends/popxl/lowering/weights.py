"""`Weights`: variables whose values differ between replicas, on their way from and to the host.

What replicas have in a variable stays on the device as long as one program is loaded. So these
values travel through feeds, in other parts of the same program: each replica has a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.distributed import transport
from tensorflow_ipu.feeds.infeed import Infeed
from tensorflow_ipu.feeds.outfeed import IPUOutfeedMode, Outfeed
from tensorflow_ipu.frontends.popxl.lowering.types import carrier, plain, tf_type
from tensorflow_ipu.frontends.popxl.tensor import Variable


def needs_lanes(variable: Variable) -> bool:
    """Returns whether replicas, or the host and a replica, have different values of a variable.

    Args:
        variable: the variable.
    """
    return variable.entry is not None or not variable.layout.is_uniform


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
        self._replicas = slice(first, first + ir.instance_replication_factor)
        self._infeed = Infeed(self._dataset(), ordinal, 1)
        self._outfeed = Outfeed(ordinal, IPUOutfeedMode.ALL)

    def receive(self) -> list[Any]:
        """Returns this replica's values, in the function in scope."""
        values = self._infeed.dequeue()
        return [_as(tf_type(v.dtype), x) for x, v in zip(values, self.variables)]

    def send(self, values: Sequence[Any]) -> tf.Operation:
        """Sends this replica's values to the host, in the function in scope.

        Args:
            values: the value of each variable.
        """
        carried = [_as(carrier(v.dtype), x) for x, v in zip(values, self.variables)]
        return self._outfeed.enqueue(carried)

    def put(self) -> None:
        """Brings the host's values to the device, before the program that receives them runs."""
        self._infeed.restart(self._dataset())

    def take(self) -> dict[Variable, np.ndarray]:
        """Returns what each replica has sent, for each variable in the order of the replicas.

        Where the replicas run in several processes, these meet here: a group of replicas may have
        its first one, or shards of a value, in another process.
        """
        return {
            variable: _of_all_processes(stored.numpy())
            .view(variable.dtype.as_numpy())
            .reshape(-1, *variable.layout.shape_on_device)
            for variable, stored in zip(self.variables, self._outfeed.dequeue(False))
        }

    def _dataset(self) -> tf.data.Dataset:
        """The elements of the feed: those of the replicas of this process in turn."""
        rows = []
        for variable in self.variables:
            values = np.ascontiguousarray(variable.layout.to_device(variable.data)[self._replicas])
            rows.append(plain(values).view(carrier(variable.dtype).as_numpy_dtype))
        return tf.data.Dataset.from_tensor_slices(tuple(rows))


def _as(dtype: tf.DType, value: Any) -> Any:
    """Returns a value with its bits taken for another type."""
    return value if value.dtype is dtype else tf.bitcast(value, dtype)


def _of_all_processes(stored: np.ndarray) -> np.ndarray:
    """Returns what the replicas of all processes have sent, the bytes of each process in turn."""
    if transport.count() == 1:
        return stored
    return transport.joined(tf.constant(stored.reshape(-1).view(np.uint8))).numpy()
