"""Feeds between arrays of the host and programs, with no dataset: `ArrayInfeed`, `ArrayOutfeed`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import tensorflow as tf

from tensorflow_ipu.feeds import common
from tensorflow_ipu.feeds.infeed import ProgramInput
from tensorflow_ipu.feeds.outfeed import IPUOutfeedMode, Outfeed
from tensorflow_ipu.runtime import native

#: Types of the tensors that these feeds carry: only the plan reads them.
TYPES = (*common.SUPPORTED_DTYPES, tf.int16, tf.uint16, tf.uint32)


class ArrayInfeed(ProgramInput):
    """An infeed that passes elements of arrays to programs.

    Element k of the arrays is for replica k modulo the number of replicas. A program that reads
    further ends with `tf.errors.OutOfRangeError`.
    """

    def __init__(self, specs: Sequence[tf.TensorSpec], device_ordinal: int) -> None:
        """Makes an infeed, which has to be filled before a program runs.

        Args:
            specs: type and shape of each tensor of an element, fully defined.
            device_ordinal: `k` of the device `/device:IPU:k`.

        Raises:
            tf.errors.FailedPreconditionError: If the device has no such type.
        """
        super().__init__(tuple(specs), device_ordinal)
        common.check_dtypes("infeed", self.types, TYPES)
        self._layout = native.ElementLayout(specs)
        native.ops()  # connects the engine

    def fill(self, elements: int, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Replaces the remaining elements by elements of arrays.

        Args:
            elements: number of elements.
            arrays: for each tensor of an element an array in C order, of its type, with one
                element after the other. The values are copied.

        Raises:
            ValueError: If an array is too small, or not in C order.
        """
        for shape, dtype, array in zip(self.shapes, self.types, arrays):
            needed = elements * shape.num_elements() * dtype.size
            if array.nbytes < needed or not array.flags.c_contiguous:
                raise ValueError(
                    f"Expected an array in C order of {elements} times {dtype.name}{tuple(shape)}. "
                    f"Received: {array.dtype}{list(array.shape)} with strides {array.strides}"
                )
        native.fill_infeed(self.id, self.device_ordinal, self._layout, elements, arrays)


class ArrayOutfeed(Outfeed):
    """An outfeed that moves tensors of programs to arrays of the host."""

    supported = TYPES

    def __init__(self, device_ordinal: int) -> None:
        """Makes an outfeed.

        Args:
            device_ordinal: `k` of the device `/device:IPU:k`.
        """
        super().__init__(device_ordinal, IPUOutfeedMode.ALL)

    def take(self, groups: int, arrays: Sequence[npt.NDArray[Any]]) -> int:
        """Moves enqueued elements into arrays.

        Args:
            groups: capacity of the arrays, in groups of one element for each replica.
            arrays: for each tensor of an element an array in C order, of its type, which gets one
                element after the other, the replicas' in turn.

        Returns:
            Number of groups. If it exceeds the capacity, the arrays are unchanged.
        """
        return native.take_outfeed(self.id, self.device_ordinal, groups, arrays)

    def drop(self) -> None:
        """Drops the enqueued elements."""
        native.take_outfeed(self.id, self.device_ordinal, 0, None)
