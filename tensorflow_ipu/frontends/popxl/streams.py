"""Streams between the host and the device: the module `popxl.streams`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow_ipu.frontends.popxl import dtypes
from tensorflow_ipu.frontends.popxl.core import scopes
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec

__all__ = ["DeviceToHostStream", "HostToDeviceStream", "d2h_stream", "h2d_stream"]


class _Stream:
    """A stream of tensors of one shape and type, each replica's in a lane of its own."""

    _tensor: Any

    def __init__(self) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} cannot be constructed directly. Use popxl.h2d_stream or "
            "popxl.d2h_stream."
        )

    @classmethod
    def create(
        cls, shape: Iterable[int], dtype: dtypes.DTypeLike, name: str | None, default: str
    ) -> Any:
        """Makes a stream of the current Ir; for this package only.

        Args:
            shape: of each element.
            dtype: of each element.
            name: its name.
            default: beginning of its name if there is none.
        """
        main = scopes.current_graph().main_graph
        stream = object.__new__(cls)
        spec = TensorSpec(tuple(shape), dtypes.of_device(dtype))
        stream._tensor = main.new_tensor(name or default, spec)
        return stream

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.tensor_id} {self.dtype} {self.shape}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stream) and self._tensor == other._tensor

    def __hash__(self) -> int:
        return hash(self._tensor)

    @property
    def tensor_id(self) -> str:
        """Its name, unique among the tensors of the main graph."""
        return self._tensor.id

    @property
    def spec(self) -> TensorSpec:
        """Shape and type of each tensor."""
        return self._tensor.spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each tensor."""
        return self._tensor.shape

    @property
    def dtype(self) -> dtypes.dtype:
        """Type of the elements."""
        return self._tensor.dtype


class HostToDeviceStream(_Stream):
    """A stream that `ops.host_load` takes tensors from."""


class DeviceToHostStream(_Stream):
    """A stream that `ops.host_store` adds tensors to."""


def h2d_stream(
    shape: Iterable[int], dtype: dtypes.DTypeLike, name: str | None = None
) -> HostToDeviceStream:
    """Makes a stream from the host to the device.

    Args:
        shape: shape of each tensor.
        dtype: type of the elements.
        name: its name; "h2d_stream" by default.
    """
    stream: HostToDeviceStream = HostToDeviceStream.create(shape, dtype, name, "h2d_stream")
    return stream


def d2h_stream(
    shape: Iterable[int], dtype: dtypes.DTypeLike, name: str | None = None
) -> DeviceToHostStream:
    """Makes a stream from the device to the host.

    Args:
        shape: shape of each tensor.
        dtype: type of the elements.
        name: its name; "d2h_stream" by default.
    """
    stream: DeviceToHostStream = DeviceToHostStream.create(shape, dtype, name, "d2h_stream")
    return stream
