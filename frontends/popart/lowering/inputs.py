"""`Inputs`: what a program gets from the host in each micro-batch, through one feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.feeds.arrays import ArrayInfeed
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
        if infos and synthetic is SyntheticDataMode.Off:
            specs = [
                tf.TensorSpec(info.shape(), self._types[name].carrier)
                for name, info in infos.items()
            ]
            self._feed = ArrayInfeed(specs, ordinal)

    def read(self) -> dict[str, Any]:
        """Adds the reading of one sample of each input.

        Returns:
            The tensors by input.
        """
        if self._synthetic is not SyntheticDataMode.Off:
            return self._made_up()
        if self._feed is None:
            return {}
        return {
            name: carriers.from_device(tensor, type_)
            for (name, type_), tensor in zip(self._types.items(), self._feed.dequeue())
        }

    def _made_up(self) -> dict[str, Any]:
        """Returns data that nobody sent, the same in each micro-batch."""
        found = {}
        for number, (name, info) in enumerate(self._infos.items()):
            random = np.random.RandomState(number)
            values = np.zeros(info.shape())
            if self._synthetic is SyntheticDataMode.RandomNormal:
                values = random.standard_normal(info.shape())
            elif self._synthetic is SyntheticDataMode.RandomUniform:
                values = random.uniform(size=info.shape())
            found[name] = tf.constant(values.astype(self._types[name].numpy))
        return found

    def start(self, samples: Mapping[str, np.ndarray]) -> None:
        """Gives the feed the data of one run.

        Args:
            samples: for each input its samples, replica by replica in each micro-batch.
        """
        if self._feed is not None:
            arrays = [
                np.ascontiguousarray(carriers.to_host(samples[name], type_))
                for name, type_ in self._types.items()
            ]
            self._feed.fill(len(arrays[0]), arrays)
