"""`Anchors`: what a program sends to the host, and which of its values."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.feeds.native_feeds import ArrayOutfeed, IPUOutfeedMode, Outfeed
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

    def __init__(
        self, data_flow: DataFlow, ordinal: int, micro_batches: int, replicas: int
    ) -> None:
        """Makes the feeds.

        Args:
            data_flow: what is anchored.
            ordinal: of the TensorFlow device.
            micro_batches: micro-batches of a run, for each replica.
            replicas: number of replicas.
        """
        self._data_flow = data_flow
        self._micro_batches, self._replicas = micro_batches, replicas
        self._feeds = {name: self._feed(name, ordinal) for name in data_flow.anchors()}
        self._sums: dict[str, Accumulator] = {}
        self.types: dict[str, datatypes.Type] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def begin(self, infos: Mapping[str, TensorInfo]) -> None:
        """Makes the sums, in the function around all loops.

        Args:
            infos: shape and type of each tensor.
        """
        for position, name in enumerate(self._data_flow.anchors()):
            if self._data_flow.art(name).id() is _SUM and infos[name].nelms():
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
        if not tensor.shape.num_elements():  # feeds send no empty tensors
            return tf.no_op()
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
        return {
            name: carriers.from_carrier(self._taken(name, feed), self.types[name])
            for name, feed in self._feeds.items()
        }

    def drop(self) -> None:
        """Removes what a run has sent that ended with an error."""
        for feed in self._feeds.values():
            if isinstance(feed, ArrayOutfeed):
                feed.drop()
                continue
            with contextlib.suppress(tf.errors.OpError):
                _dequeued(feed)

    def _feed(self, name: str, ordinal: int) -> Outfeed:
        """Returns a feed that keeps what is wanted of an anchor."""
        if self._data_flow.art(name).id() is _FINAL:
            return Outfeed(ordinal, IPUOutfeedMode.LAST)
        return ArrayOutfeed(ordinal)

    def _taken(self, name: str, feed: Outfeed) -> np.ndarray:
        """Returns what a run has sent of an anchor, in the type that goes between the two."""
        if 0 in self.shapes[name]:
            return np.empty((self._replicas, *self.shapes[name]), self.types[name].carrier)
        if not isinstance(feed, ArrayOutfeed):
            return _dequeued(feed).reshape(-1, *self.shapes[name])
        kind, count = self._data_flow.art(name), self._micro_batches
        if kind.id() is not AnchorReturnTypeId.All:
            count = 1 if kind.id() is _SUM else count // kind.rp()
        shape = (count * self._replicas, *self.shapes[name])
        samples = np.empty(shape, self.types[name].carrier)
        feed.take(count, [samples])
        return samples


def _dequeued(feed: Outfeed) -> np.ndarray:
    """Returns all that a feed of one tensor has."""
    found = feed.dequeue(False)
    tensor = found[0] if isinstance(found, (list, tuple)) else found
    return np.asarray(tensor.numpy())
