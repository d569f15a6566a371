"""`Weights`: variables whose values differ between replicas, on their way from and to the host.

What replicas have in a variable stays on the device as long as one program is loaded. So these
values travel through feeds, in other parts of the same program: each replica has a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

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

        Raises:
            NotImplementedError: If replicas run in several processes.
        """
        ir = variables[0].ir
        if ir.replication_factor != ir.instance_replication_factor:
            raise NotImplementedError(
                "Variables in groups of replicas or in remote buffers run in one process only. "
                f"{ir!r} has {ir.instance_replication_factor} of {ir.replication_factor} replicas "
                "in this one: start the program without poprun, or use ordinary variables."
            )
        self.variables = tuple(variables)
        self._replicas = ir.replication_factor
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
        """Returns what each replica has sent, for each variable in the order of the replicas."""
        return {
            variable: stored.numpy()
            .view(variable.dtype.as_numpy())
            .reshape(self._replicas, *variable.layout.shape_on_device)
            for variable, stored in zip(self.variables, self._outfeed.dequeue(False))
        }

    def _dataset(self) -> tf.data.Dataset:
        """The elements of the feed: those of the replicas in turn."""
        rows = []
        for variable in self.variables:
            values = np.ascontiguousarray(variable.layout.to_device(variable.data))
            rows.append(plain(values).view(carrier(variable.dtype).as_numpy_dtype))
        return tf.data.Dataset.from_tensor_slices(tuple(rows))


def _as(dtype: tf.DType, value: Any) -> Any:
    """Returns a value with its bits taken for another type."""
    return value if value.dtype is dtype else tf.bitcast(value, dtype)
