"""`Transfers`: arrays of the host for the streams of a run, checked and put into shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl import utils
from tensorflow_ipu.frontends.popxl.ir import Ir
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream

_Stream = Any


class Transfers:
    """What goes to the device and comes from it in each run of an Ir."""

    def __init__(self, ir: Ir) -> None:
        """Notes the streams of an Ir, which no longer changes.

        Args:
            ir: the Ir.
        """
        self._loaded: set[HostToDeviceStream] = ir.get_all_h2d_streams()
        self._stored: set[DeviceToHostStream] = ir.get_all_d2h_streams()
        self._transfers = ir.num_host_transfers
        self._replicas = ir.instance_replication_factor

    def elements(
        self, inputs: Mapping[HostToDeviceStream, Any], downcast: bool
    ) -> dict[HostToDeviceStream, np.ndarray]:
        """Returns the elements of each stream, those of the replicas in turn.

        Args:
            inputs: an array for each stream.
            downcast: whether data of 64 bits becomes data of 32 bits.

        Raises:
            ValueError: If streams are missing or unknown, or a shape does not fit.
        """
        _check_streams("input", self._loaded, inputs)
        elements = {}
        for stream, data in inputs.items():
            array = utils.to_numpy(data, downcast=downcast, copy=False)
            self._check_shape(stream, array)
            whole = np.asarray(array.reshape(-1, *stream.shape), stream.dtype.as_numpy())
            elements[stream] = whole[: self._transfers * self._replicas]
        return elements

    def check_outputs(self, outputs: Mapping[DeviceToHostStream, np.ndarray]) -> None:
        """Refuses arrays that outputs do not fit into.

        Args:
            outputs: an array for each stream.

        Raises:
            ValueError: If streams are missing or unknown, or a shape does not fit.
        """
        _check_streams("output", self._stored, outputs)
        for stream, array in outputs.items():
            self._check_shape(stream, array)

    def new_outputs(self) -> dict[DeviceToHostStream, np.ndarray]:
        """Returns an array of zeros for each stream that is stored to."""
        return {
            stream: np.zeros((*self._leading, *stream.shape), stream.dtype.as_numpy())
            for stream in self._stored
        }

    def fill(
        self,
        outputs: Mapping[DeviceToHostStream, np.ndarray],
        stored: Mapping[DeviceToHostStream, np.ndarray],
    ) -> None:
        """Puts what a run has stored into arrays.

        Args:
            outputs: the arrays.
            stored: for each stream its elements, with the replicas in the second dimension if
                there is more than one.

        Raises:
            RuntimeError: If a stream has more elements than one run may store.
        """
        for stream, elements in stored.items():
            if len(elements) > self._transfers:
                raise RuntimeError(
                    f"The program stored {len(elements)} tensors to {stream!r}, more than one run "
                    f"may: num_host_transfers={self._transfers}."
                )
            replicas = (self._replicas,) if self._replicas > 1 else ()
            array = outputs[stream].reshape(-1, *replicas, *stream.shape)
            array[: len(elements)] = elements

    @property
    def _leading(self) -> tuple[int, ...]:
        """The dimensions before those of a stream."""
        return tuple(number for number in (self._transfers, self._replicas) if number > 1)

    def _check_shape(self, stream: _Stream, array: np.ndarray) -> None:
        """Refuses an array of another shape than transfers, replicas and stream make."""
        expected = (*self._leading, *stream.shape)
        shape = tuple(array.shape)
        message = (
            f"for {stream!r}: expected {expected} (num_host_transfers={self._transfers}, "
            f"replicas={self._replicas}). Received: {shape}"
        )
        own = shape[len(self._leading) :]
        if len(shape) < len(self._leading):
            raise ValueError(f"Shape mismatch {message}")
        if self._transfers > 1 and shape[0] < self._transfers:
            raise ValueError(f"The first dimension is not large enough {message}")
        replica_axis = 1 if self._transfers > 1 else 0
        if self._replicas > 1 and shape[replica_axis] != self._replicas:
            raise ValueError(f"The replica dimension is the wrong size {message}")
        if own != stream.shape and not (np.prod(own, dtype=int) == 1 == np.prod(stream.shape)):
            raise ValueError(f"Shape mismatch {message}")


def _check_streams(what: str, expected: set[Any], given: Mapping[Any, Any]) -> None:
    """Refuses other streams than those that the program uses."""
    unexpected, missing = set(given) - expected, expected - set(given)
    if unexpected or missing:
        found = [f"Unexpected {what}s: {_names(unexpected)}."] if unexpected else []
        found += [f"Missing {what}s: {_names(missing)}."] if missing else []
        raise ValueError(
            f"{' '.join(found)} The program uses the {what} streams: {_names(expected)}."
        )


def _names(streams: set[Any]) -> str:
    return ", ".join(sorted(map(repr, streams))) or "none"
