"""`Inputs`: what a program gets from the host in each micro-batch, through one feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.feeds.native_feeds import ArrayInfeed
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.enums import SyntheticDataMode
from tensorflow_ipu.frontends.popart.lowering import carriers
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo


class Inputs:
    """The inputs that a program reads."""

    def __init__(
        self,
        infos: Mapping[str, TensorInfo],
        ordinal: int,
        synthetic: SyntheticDataMode = SyntheticDataMode.Off,
    ) -> None:
        """Makes the feed, unless there are no inputs.

        Args:
            infos: shape and type of each input.
            ordinal: of the TensorFlow device.
            synthetic: what takes the place of data from the host, which then are not read.
        """
        self._infos = infos
        self._synthetic = synthetic
        self._types = {name: datatypes.of_member(info.dataType()) for name, info in infos.items()}
        self._feed: ArrayInfeed | None = None
        # Feeds send no empty tensors.
        self._sent = [name for name, info in infos.items() if info.nelms()]
        if self._sent and synthetic is SyntheticDataMode.Off:
            specs = [
                tf.TensorSpec(infos[name].shape(), self._types[name].carrier) for name in self._sent
            ]
            self._feed = ArrayInfeed(specs, ordinal)

    def read(self) -> dict[str, Any]:
        """Adds the reading of one sample of each input.

        Returns:
            The tensors by input.
        """
        if self._synthetic is not SyntheticDataMode.Off:
            return self._made_up()
        empty = {
            name: tf.zeros(info.shape(), self._types[name].tf)
            for name, info in self._infos.items()
            if not info.nelms()
        }
        if self._feed is None:
            return empty
        read = zip(self._sent, self._feed.dequeue())
        return {
            **empty,
            **{name: carriers.from_device(tensor, self._types[name]) for name, tensor in read},
        }

    def _made_up(self) -> dict[str, Any]:
        """Returns data that nobody sent, the same in each micro-batch."""
        found = {}
        for number, (name, info) in enumerate(self._infos.items()):
            random = np.random.RandomState(number)
            dtype = np.dtype(self._types[name].numpy)
            values = np.zeros(info.shape())
            if self._synthetic is SyntheticDataMode.RandomNormal:
                values = random.standard_normal(info.shape())
            elif self._synthetic is SyntheticDataMode.RandomUniform:
                values = _uniform(random, info.shape(), dtype)
            found[name] = tf.constant(values.astype(dtype))
        return found

    def start(self, samples: Mapping[str, np.ndarray]) -> None:
        """Gives the feed the data of one run.

        Args:
            samples: for each input its samples, replica by replica in each micro-batch.
        """
        if self._feed is not None:
            arrays = [
                np.ascontiguousarray(carriers.to_host(samples[name], self._types[name]))
                for name in self._sent
            ]
            self._feed.fill(len(arrays[0]), arrays)


def _uniform(random: np.random.RandomState, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Returns numbers from all of an integer type's range, half of booleans true, or below 1."""
    if dtype.kind not in "iub":
        return random.uniform(size=shape)
    if dtype.kind == "b":
        return random.uniform(size=shape) < 0.5
    limits = np.iinfo(dtype)
    least = limits.min + 1 if dtype.kind == "i" else 0  # as far below zero as above
    return np.random.default_rng(0).integers(least, limits.max, shape, dtype, endpoint=True)
