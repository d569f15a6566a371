"""Streams that are made where they are loaded or stored; the module `ops.streams`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = ["host_load", "host_store"]


def host_load(
    t: Any, dtype: popxl.dtype, name: str
) -> tuple[np.ndarray, popxl.HostToDeviceStream, popxl.Tensor]:
    """Loads a tensor from a new stream for an array.

    Args:
        t: an array, with the shape of the stream.
        dtype: type of the elements on the device.
        name: name of the tensor.

    Returns:
        The array in that type, the stream, and the tensor.
    """
    data = popxl.utils.to_numpy(t, dtype)
    stream = popxl.h2d_stream(data.shape, dtype, f"{name}_stream")
    return data, stream, ops.host_load(stream, name)


def host_store(t: popxl.Tensor) -> popxl.DeviceToHostStream:
    """Stores a tensor to a new stream.

    Args:
        t: the tensor.

    Returns:
        The stream.
    """
    stream = popxl.d2h_stream(t.shape, t.dtype, f"{t.name}_stream")
    ops.host_store(stream, t)
    return stream
