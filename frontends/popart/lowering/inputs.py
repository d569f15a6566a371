"""`Inputs`: what a program gets from the host in each micro-batch, through one feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.feeds.arrays import ArrayInfeed
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.lowering import carriers
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo


class Inputs:
    """The inputs that a program reads."""

    def __init__(self, infos: Mapping[str, TensorInfo], ordinal: int) -> None:
        """Makes the feed, unless there are no inputs.

        Args:
            infos: shape and type of each input.
            ordinal: of the TensorFlow device.
        """
        self._types = {name: datatypes.of_member(info.dataType()) for name, info in infos.items()}
        self._feed: ArrayInfeed | None = None
        if infos:
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
        if self._feed is None:
            return {}
        return {
            name: carriers.from_device(tensor, type_)
            for (name, type_), tensor in zip(self._types.items(), self._feed.dequeue())
        }

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
