"""Views: how an output of an in-place op shares the storage of inputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


class View:
    """Says where the elements of a tensor are in others, its sources.

    To write into a view makes new values of the sources: no value ever changes.
    """

    def of(self, inputs: int) -> range:
        """Returns the positions of the inputs of an op that are the sources: the first.

        Args:
            inputs: how many inputs the op has.
        """
        return range(1)

    def read(self, sources: Sequence[Any]) -> Any:
        """Returns the value of the view.

        Args:
            sources: values of the sources.
        """
        raise NotImplementedError

    def write(self, sources: Sequence[Any], value: Any) -> list[Any]:
        """Returns the values of the sources after writing into the view.

        Args:
            sources: their values before.
            value: the new value.
        """
        raise NotImplementedError


class Same(View):
    """The whole of one source."""

    def read(self, sources: Sequence[Any]) -> Any:
        """Returns the source."""
        return sources[0]

    def write(self, sources: Sequence[Any], value: Any) -> list[Any]:
        """Returns the value."""
        return [value]


def whole(specs: Sequence[Any], **_: Any) -> View:
    """Returns the view of an op whose output is the first input."""
    return Same()


@dataclasses.dataclass(frozen=True)
class Reshaped(View):
    """One source in another shape.

    Attributes:
        shape: The shape of the view.
    """

    shape: tuple[int, ...]

    def read(self, sources: Sequence[Any]) -> Any:
        """Returns the source in the shape of the view."""
        return tf.reshape(sources[0], self.shape)

    def write(self, sources: Sequence[Any], value: Any) -> list[Any]:
        """Returns the value in the shape of the source."""
        return [tf.reshape(value, sources[0].shape)]


@dataclasses.dataclass(frozen=True)
class Transposed(View):
    """One source with its axes in another order.

    Attributes:
        permutation: The axis of the source for each axis of the view.
    """

    permutation: tuple[int, ...]

    def read(self, sources: Sequence[Any]) -> Any:
        """Returns the source transposed."""
        return tf.transpose(sources[0], self.permutation)

    def write(self, sources: Sequence[Any], value: Any) -> list[Any]:
        """Returns the value transposed back."""
        return [tf.transpose(value, [int(axis) for axis in np.argsort(self.permutation)])]


@dataclasses.dataclass(frozen=True)
class Sliced(View):
    """A part of one source, cut out along each axis.

    Attributes:
        slices: First index, index after the last (None: to the beginning, with a negative step)
            and step for each axis.
    """

    slices: tuple[tuple[int, int | None, int], ...]

    def read(self, sources: Sequence[Any]) -> Any:
        """Returns the part."""
        return sources[0][tuple(slice(*bounds) for bounds in self.slices)]

    def write(self, sources: Sequence[Any], value: Any) -> list[Any]:
        """Returns the source with the part replaced."""
        (whole,) = sources
        indices = np.arange(math.prod(whole.shape)).reshape(whole.shape)
        written = indices[tuple(slice(*bounds) for bounds in self.slices)].reshape(-1, 1)
        flat = tf.tensor_scatter_nd_update(
            tf.reshape(whole, [-1]), written.astype(np.int32), tf.reshape(value, [-1])
        )
        return [tf.reshape(flat, whole.shape)]


@dataclasses.dataclass(frozen=True)
class Joined(View):
    """Several sources one after the other.

    Attributes:
        axis: The axis along which they follow each other.
    """

    axis: int

    def of(self, inputs: int) -> range:
        """Returns the positions of all inputs."""
        return range(inputs)

    def read(self, sources: Sequence[Any]) -> Any:
        """Returns the sources joined."""
        return tf.concat(list(sources), self.axis)

    def write(self, sources: Sequence[Any], value: Any) -> list[Any]:
        """Returns the part of the value for each source."""
        return list(tf.split(value, [source.shape[self.axis] for source in sources], self.axis))
