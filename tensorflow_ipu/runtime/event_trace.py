"""Decoders of trace events: the `extract_*` functions of `ipu.utils`."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from tensorflow.core.framework import summary_pb2
from tensorflow.python.framework import tensor_util

from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_F = TypeVar("_F", bound="Callable[..., Any]")
_RULE = "-" * 70
# An event begins with the tag of its field 1, a double; a summary with a message's.
_SUMMARY_TAG = b"\x0a"


def extract_all_events(events: Any) -> list[IpuTraceEvent]:
    """Returns the parsed events.

    Args:
        events: the value of `ipu_event_trace` or `ipu_compile_summary`, or a list of such values.

    Returns:
        The events, oldest first.

    Raises:
        TypeError: something else than serialised events was passed.
    """
    return [IpuTraceEvent.FromString(text) for text in _serialized(events)]


def extract_all_types_from_event_trace(events: Any) -> list[int]:
    """Returns the numbers of the events' types.

    Args:
        events: as for `extract_all_events`.

    Returns:
        Members of `IpuTraceEvent.Type`, oldest first.
    """
    return [event.type for event in extract_all_events(events)]


def extract_all_strings_from_event_trace(events: Any) -> str:
    """Returns the events as one text.

    Args:
        events: as for `extract_all_events`.

    Returns:
        For each event a rule, its local time, and its description.
    """
    return "".join(_text(event) for event in extract_all_events(events))


def _without_reports(function: _F) -> _F:
    """Makes a function log that events hold no reports any more."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warn_once(
            "%s is deprecated and will be removed: trace events hold no reports, which are "
            "written to files instead.",
            function.__name__,
        )
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


@_without_reports
def extract_compile_reports(events: Any) -> list[tuple[str, str]]:
    """Returns the compilation reports in events: none, they are files.

    Args:
        events: as for `extract_all_events`.

    Returns:
        An empty list.
    """
    del events
    return []


@_without_reports
def extract_execute_reports(events: Any) -> list[tuple[str, str]]:
    """Returns the execution reports in events: none, they are files.

    Args:
        events: as for `extract_all_events`.

    Returns:
        An empty list.
    """
    del events
    return []


@_without_reports
def extract_poplar_serialized_graphs(events: Any) -> list[tuple[str, str]]:
    """Returns the serialised graphs in events: none, they are files.

    Args:
        events: as for `extract_all_events`.

    Returns:
        An empty list.
    """
    del events
    return []


def _serialized(events: Any) -> Iterator[bytes]:
    """Yields each event in any nesting of arrays, lists and summaries."""
    if isinstance(events, bytes):
        if events.startswith(_SUMMARY_TAG):
            for value in summary_pb2.Summary.FromString(events).value:
                yield from _serialized(tensor_util.MakeNdarray(value.tensor))
        else:
            yield events
    elif isinstance(events, (list, tuple)):
        for part in events:
            yield from _serialized(part)
    elif isinstance(events, np.ndarray):
        yield from _serialized(events.tolist())
    elif hasattr(events, "numpy"):
        yield from _serialized(events.numpy())
    else:
        raise TypeError(
            "Expected the value of an event trace, an array of serialised events. Received: "
            f"events={events!r}. In graph mode, evaluate the tensor with a session first."
        )


def _text(event: IpuTraceEvent) -> str:
    """Returns one event as text."""
    local = time.strftime("%F %T %z", time.localtime(event.timestamp))
    return f"{_RULE}\n=> @ {local}: {_happening(event)}\n"


def _happening(event: IpuTraceEvent) -> str:
    """Returns the description of an event."""
    if event.type == IpuTraceEvent.COMPILE_BEGIN:
        return f"Compile begin: {event.compile_begin.module_name.decode()}"
    if event.type == IpuTraceEvent.COMPILE_END:
        end = event.compile_end
        return f"Compile end: {end.module_name.decode()}\nDuration: {end.duration}"
    if event.type == IpuTraceEvent.LOAD_ENGINE:
        return f"Load engine: {event.load_engine.module_name.decode()}"
    if event.type == IpuTraceEvent.EXECUTE:
        return f"Execute: {event.execute.module_name.decode()}"
    to_device = event.type == IpuTraceEvent.HOST_TO_DEVICE_TRANSFER
    direction = "Host->Device" if to_device else "Device->Host"
    return f"{direction} {event.data_transfer.data_transfer.decode()}"
