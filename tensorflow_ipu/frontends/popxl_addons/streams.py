"""`InputStreams`, `OutputStreams`: streams by name; the module `popxl_addons.streams`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tensorflow_ipu.frontends import popxl

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["InputStreams", "OutputStreams"]

S = TypeVar("S")


class _Streams(Generic[S]):
    """Streams in order, by name, by number and as attributes."""

    _streams: dict[str, S]

    def __init__(self, **specs: tuple[Iterable[int], popxl.dtype]) -> None:
        """Makes a stream for each name.

        Args:
            **specs: shape and type of each tensor of the stream, by name.
        """
        self._streams = {name: self._make(tuple(s), d, name) for name, (s, d) in specs.items()}

    @staticmethod
    def _make(shape: Any, dtype: popxl.dtype, name: str) -> Any:
        raise NotImplementedError

    @classmethod
    def from_streams(cls, streams: Iterable[S]) -> Self:
        """Makes a collection of streams that there are, with the ids of their tensors as names.

        Args:
            streams: the streams.
        """
        made = cls()
        made._streams = {stream.tensor_id: stream for stream in streams}  # type: ignore[attr-defined]
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{', '.join(self._streams)}]"

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[S]:
        return iter(self._streams.values())

    def __contains__(self, value: object) -> bool:
        return value in self._streams or value in self._streams.values()

    def __getattr__(self, name: str) -> S:
        streams = self.__dict__.get("_streams", {})
        if name not in streams:
            raise AttributeError(f"There is no stream {name!r}. The streams: {list(streams)}")
        return streams[name]

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, (int, slice)):
            return list(self._streams.values())[key]
        if key not in self._streams:
            raise KeyError(f"There is no stream {key!r}. The streams: {list(self._streams)}")
        return self._streams[key]

    def keys(self) -> list[str]:
        """Returns the names."""
        return list(self._streams)

    def values(self) -> list[S]:
        """Returns the streams."""
        return list(self._streams.values())

    def items(self) -> list[tuple[str, S]]:
        """Returns the names with their streams."""
        return list(self._streams.items())


class InputStreams(_Streams[popxl.HostToDeviceStream]):
    """Streams from the host to the device: `InputStreams(images=((8, 28, 28), popxl.float32))`."""

    @staticmethod
    def _make(shape: Any, dtype: popxl.dtype, name: str) -> popxl.HostToDeviceStream:
        return popxl.h2d_stream(shape, dtype, name)


class OutputStreams(_Streams[popxl.DeviceToHostStream]):
    """Streams from the device to the host: `OutputStreams(loss=((), popxl.float32))`."""

    @staticmethod
    def _make(shape: Any, dtype: popxl.dtype, name: str) -> popxl.DeviceToHostStream:
        return popxl.d2h_stream(shape, dtype, name)
