"""`Anchors`: what a program sends to the host, and which of its values."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.feeds.outfeed import IPUOutfeedMode, Outfeed
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.enums import AnchorReturnTypeId
from tensorflow_ipu.frontends.popart.lowering import carriers
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.training.accumulators import Accumulator

_FINAL, _EVERY_N, _SUM = (
    AnchorReturnTypeId.Final,
    AnchorReturnTypeId.EveryN,
    AnchorReturnTypeId.Sum,
)


class Anchors:
    """The anchors of a program, each with a feed of its own.

    Attributes:
        types: The type of each anchor, by id; known when the program is built.
        shapes: The shape of each.
    """

    def __init__(self, data_flow: DataFlow, ordinal: int) -> None:
        """Makes the feeds.

        Args:
            data_flow: what is anchored.
            ordinal: of the TensorFlow device.
        """
        self._data_flow = data_flow
        self._feeds = {}
        for name in data_flow.anchors():
            final = data_flow.art(name).id() is _FINAL
            mode = IPUOutfeedMode.LAST if final else IPUOutfeedMode.ALL
            self._feeds[name] = Outfeed(ordinal, mode)
        self._sums: dict[str, Accumulator] = {}
        self.types: dict[str, datatypes.Type] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def begin(self, infos: Mapping[str, TensorInfo]) -> None:
        """Makes the sums, in the function around all loops.

        Args:
            infos: shape and type of each tensor.
        """
        for position, name in enumerate(self._data_flow.anchors()):
            if self._data_flow.art(name).id() is _SUM:
                type_ = datatypes.of_member(infos[name].dataType()).tf
                total = type_ if type_.is_floating else tf.int32
                shape = infos[name].shape()
                self._sums[name] = Accumulator(shape, total, f"anchor_sum_{position}")

    def send(self, name: str, tensor: Any, number: Any) -> Any:
        """Adds the sending of an anchor's value in one micro-batch.

        Args:
            name: the anchor.
            tensor: its value.
            number: number of the micro-batch in the step, from 0: a scalar tensor.

        Returns:
            The operation.
        """
        self.types[name] = datatypes.of_tf(tensor.dtype)
        self.shapes[name] = tuple(tensor.shape)
        kind = self._data_flow.art(name)
        if kind.id() is _SUM:
            return self._sums[name].add(tensor)
        feed, carried = self._feeds[name], carriers.to_carrier(tensor)
        if kind.id() is not _EVERY_N:
            return feed.enqueue(carried)

        def enqueue() -> Any:
            with tf.control_dependencies([feed.enqueue(carried)]):
                return tf.constant(True)

        is_wanted = tf.equal((number + 1) % kind.rp(), 0)
        return tf.cond(is_wanted, enqueue, lambda: tf.constant(False)).op

    def send_sums(self) -> list[Any]:
        """Adds the sending of sums after the last micro-batch.

        Returns:
            The operations.
        """
        return [
            self._feeds[name].enqueue(
                carriers.to_carrier(tf.cast(total.value(), self.types[name].tf))
            )
            for name, total in self._sums.items()
        ]

    def take(self) -> Mapping[str, np.ndarray]:
        """Returns what one run has sent.

        Returns:
            For each anchor its samples along the first dimension: micro-batch by micro-batch, and
            replica by replica in each.
        """
        taken = {}
        for name, feed in self._feeds.items():
            array = _dequeued(feed)
            samples = array.reshape(-1, *self.shapes[name])
            taken[name] = carriers.from_carrier(samples, self.types[name])
        return taken

    def drop(self) -> None:
        """Removes what a run has sent that ended with an error."""
        for feed in self._feeds.values():
            with contextlib.suppress(tf.errors.OpError):
                _dequeued(feed)


def _dequeued(feed: Outfeed) -> np.ndarray:
    """Returns all that a feed of one tensor has."""
    found = feed.dequeue(False)
    tensor = found[0] if isinstance(found, (list, tuple)) else found
    return np.asarray(tensor.numpy())
