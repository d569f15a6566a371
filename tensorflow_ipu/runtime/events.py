"""Trace events of programs: a store until `ipu_event_trace` reads them, and their decoders.

Recorded only while the configuration asks for events. The compiler's events are appended here, the
engine keeps its own; both are put in order of time when they are read. Their JSON texts are made
then, too, so that recording costs next to nothing. Observers are told the same, in times alone.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from tensorflow.core.framework import summary_pb2
from tensorflow.python.framework import tensor_util

from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.runtime import event_payloads, native
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tensorflow_ipu.runtime.event_payloads import Traced
    from tensorflow_ipu.runtime.system import System


def compile_begin(name: str, ordinal: int, timestamp: float) -> IpuTraceEvent:
    """Returns the event at the start of a compilation.

    Args:
        name: name of the program.
        ordinal: TensorFlow device.
        timestamp: seconds since the epoch.
    """
    event = _event(IpuTraceEvent.COMPILE_BEGIN, ordinal, timestamp)
    event.compile_begin.module_name = name.encode()
    return event


def compile_end(
    program: Traced, ordinal: int, timestamp: float, duration: int, max_bytes: int = 0
) -> IpuTraceEvent:
    """Returns the event at the end of a compilation, with the listing of the program's ops.

    Args:
        program: the compiled program.
        ordinal: TensorFlow device.
        timestamp: seconds since the epoch.
        duration: microseconds.
        max_bytes: of the tensor map; with 0 it has no tiles.
    """
    event = _event(IpuTraceEvent.COMPILE_END, ordinal, timestamp)
    event.compile_end.module_name = program.name.encode()
    event.compile_end.duration = duration
    event.compile_end.tensor_map = event_payloads.tensor_map(program, max_bytes).encode()
    event.compile_end.instruction_info = event_payloads.instruction_info(program).encode()
    return event


def host_to_device(
    program: Traced, ordinal: int, timestamp: float, variables: bool
) -> IpuTraceEvent:
    """Returns the event of a transfer to the device.

    Args:
        program: the program the data is for.
        ordinal: TensorFlow device.
        timestamp: seconds since the epoch.
        variables: whether its variables moved, or else its inputs.
    """
    event = _event(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, ordinal, timestamp)
    text = event_payloads.arguments(program, variables)
    event.data_transfer.data_transfer = text.encode()
    return event


def device_to_host(
    program: Traced, ordinal: int, timestamp: float, variables: bool
) -> IpuTraceEvent:
    """Returns the event of a transfer from the device.

    Args:
        program: the program the data comes from.
        ordinal: TensorFlow device.
        timestamp: seconds since the epoch.
        variables: whether its variables moved, or else its results.
    """
    event = _event(IpuTraceEvent.DEVICE_TO_HOST_TRANSFER, ordinal, timestamp)
    text = event_payloads.results(program, variables)
    event.data_transfer.data_transfer = text.encode()
    return event


def load_engine(name: str, ordinal: int, timestamp: float) -> IpuTraceEvent:
    """Returns the event of a program being loaded onto the device.

    Args:
        name: name of the program.
        ordinal: TensorFlow device.
        timestamp: seconds since the epoch.
    """
    event = _event(IpuTraceEvent.LOAD_ENGINE, ordinal, timestamp)
    event.load_engine.module_name = name.encode()
    return event


def execute(name: str, ordinal: int, timestamp: float) -> IpuTraceEvent:
    """Returns the event of an execution.

    Args:
        name: name of the program.
        ordinal: TensorFlow device.
        timestamp: seconds since the epoch.
    """
    event = _event(IpuTraceEvent.EXECUTE, ordinal, timestamp)
    event.execute.module_name = name.encode()
    return event


def _event(kind: IpuTraceEvent.Type, ordinal: int, timestamp: float) -> IpuTraceEvent:
    """Returns an event without its message."""
    return IpuTraceEvent(type=kind, ordinal=ordinal, timestamp=timestamp)


# --- Trace events of programs, stored until `ipu_event_trace` reads them ---

_MICROSECONDS = 1_000_000


class Engine(Protocol):
    """The part of the native engine that the store uses; the module `native` is one."""

    def enable_events(self, enabled: bool) -> None:
        """Turns recording in the engine on or off."""

    def drain_events(self) -> list[native.EngineEvent]:
        """Returns and forgets the engine's events, oldest first."""


class Observer(Protocol):
    """Observer of compilations and engine events. Its methods run with a lock held."""

    def compiled(self, name: str, ordinal: int, began: float, ended: float) -> None:
        """Records a compilation: the program, its device, and times in seconds since the epoch."""

    def happened(self, event: native.EngineEvent, name: str) -> None:
        """Records an event of the engine, with the name of its program."""


class _Entry(NamedTuple):
    """An event that is made when it is read."""

    timestamp: float
    build: Callable[[], IpuTraceEvent]


class EventStore:
    """The events since they were last read.

    Args:
        engine: keeps the events of launches.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._enabled = False
        self._entries: list[_Entry] = []
        # Programs of the configuration in force by identifier: the engine knows no others.
        self._programs: dict[str, event_payloads.Outline] = {}
        self._observers: list[Observer] = []

    @property
    def enabled(self) -> bool:
        """Whether events are being recorded."""
        return self._enabled

    @property
    def observed(self) -> bool:
        """Whether there is any observer."""
        return bool(self._observers)

    def observe(self, observer: Observer) -> None:
        """Adds an observer of compilations and events from now on.

        The engine's events reach it when events are read, or `collect` is called.

        Args:
            observer: the observer.
        """
        with self._lock:
            self._collect()
            self._observers.append(observer)
            self._engine.enable_events(True)

    def forget(self, observer: Observer) -> None:
        """Removes an observer, after passing on the events until now.

        Args:
            observer: the observer; an unknown one is ignored.
        """
        with self._lock:
            if observer not in self._observers:
                return
            self._collect()
            self._observers.remove(observer)
            if not (self._enabled or self._observers):
                self._engine.enable_events(False)

    def collect(self) -> None:
        """Passes the engine's events until now to the observers."""
        with self._lock:
            self._collect()

    def compiled(self, name: str, ordinal: int, began: float, ended: float) -> None:
        """Passes a compilation to the observers.

        Args:
            name: of the program.
            ordinal: TensorFlow device it was compiled for.
            began: when, in seconds since the epoch.
            ended: when it ended.
        """
        with self._lock:
            for observer in self._observers:
                observer.compiled(name, ordinal, began, ended)

    def enable(self, enabled: bool) -> None:
        """Turns recording on or off and drops the programs; recorded events are kept.

        Args:
            enabled: whether to record from now on.
        """
        with self._lock:
            if enabled or self._enabled or self._observers:
                self._collect()
                self._enabled = enabled
                self._engine.enable_events(enabled or bool(self._observers))
            self._programs.clear()

    def append(self, build: Callable[[], IpuTraceEvent], timestamp: float | None = None) -> None:
        """Records an event, if events are being recorded.

        Args:
            build: makes the event; called when events are read.
            timestamp: seconds since the epoch, now if not given. It puts events in order.
        """
        if not self._enabled:
            return
        entry = _Entry(time.time() if timestamp is None else timestamp, build)
        with self._lock:
            self._entries.append(entry)

    def remember(self, program: Traced) -> None:
        """Registers a program, so that the engine's events have its name and sizes.

        The program itself is not kept.

        Args:
            program: a program that the engine knows as `program.id`.
        """
        if self._enabled or self._observers:
            with self._lock:
                self._programs[program.id] = event_payloads.Outline.of(program)

    def drain(self) -> list[bytes]:
        """Returns all events as serialised `IpuTraceEvent`, oldest first, and forgets them."""
        with self._lock:
            self._collect()
            entries, self._entries = self._entries, []
        entries.sort(key=lambda entry: entry.timestamp)
        return [entry.build().SerializeToString() for entry in entries]

    def _collect(self) -> None:
        """Takes over the engine's events while their programs are known. Call with the lock."""
        if not (self._enabled or self._observers):
            return
        for event in self._engine.drain_events():
            program = self._programs.get(event.executable)
            for observer in self._observers:
                known = program or event_payloads.Outline.unknown(event.executable)
                observer.happened(event, known.name)
            if self._enabled:
                self._entries.append(_engine_entry(event, program))


STORE = EventStore(native)


def configure(system: System) -> None:
    """Follows a configuration: records events if it asks for events or for profiles.

    Args:
        system: the new configuration.
    """
    profiling = system.options.profiling
    STORE.enable(profiling.enable_ipu_trace_events or profiling.enable_compilation_trace)


@contextlib.contextmanager
def compiling(
    name: str,
    ordinal: int,
    on_device: bool = True,
    store: EventStore | None = None,
    began: float | None = None,
    max_report_bytes: int = 0,
) -> Iterator[Callable[[Traced], None]]:
    """Records the beginning and the end of a compilation.

    Args:
        name: name of the program.
        ordinal: TensorFlow device it is compiled for.
        on_device: False for a program that the host evaluates, which has no events.
        store: where to record; the process's store if not given.
        began: when the compilation began, in seconds since the epoch; now if not given.
        max_report_bytes: how long the report in the event may be that says which tiles tensors are
            on: see `report_bytes`.

    Yields:
        A function to call with the finished program.
    """
    store = STORE if store is None else store
    if not ((store.enabled or store.observed) and on_device):
        yield lambda program: None
        return
    finished: list[Traced] = []
    start = time.time() if began is None else began
    store.append(lambda: compile_begin(name, ordinal, start), start)
    yield finished.append
    ended = time.time()
    duration = round((ended - start) * _MICROSECONDS)
    store.compiled(name, ordinal, start, ended)
    for program in finished:
        store.remember(program)
        build = _compile_end_builder(program, ordinal, ended, duration, max_report_bytes)
        store.append(build, ended)


def report_bytes(system: System) -> int:
    """Returns the limit of the report in a compilation's event, in bytes.

    Only events with reports have tile mappings: for a large program they take 100 MB.

    Args:
        system: the configuration.

    Returns:
        A number of bytes, 0 where events have no reports.
    """
    profiling = system.options.profiling
    return profiling.max_report_size if profiling.enable_compilation_trace else 0


def _compile_end_builder(
    program: Traced, ordinal: int, timestamp: float, duration: int, max_bytes: int
) -> Callable[[], IpuTraceEvent]:
    """Returns a function that makes the event later: a large listing takes seconds."""
    return lambda: compile_end(program, ordinal, timestamp, duration, max_bytes)


def _engine_entry(event: native.EngineEvent, program: event_payloads.Outline | None) -> _Entry:
    """Returns an entry that builds an event of the engine, with its program's name and sizes."""

    def build() -> IpuTraceEvent:
        known = program or event_payloads.Outline.unknown(event.executable)
        ordinal, timestamp = event.ordinal, event.timestamp
        if event.type == IpuTraceEvent.LOAD_ENGINE:
            return load_engine(known.name, ordinal, timestamp)
        if event.type == IpuTraceEvent.EXECUTE:
            return execute(known.name, ordinal, timestamp)
        if event.type == IpuTraceEvent.HOST_TO_DEVICE_TRANSFER:
            return host_to_device(known, ordinal, timestamp, event.variables)
        return device_to_host(known, ordinal, timestamp, event.variables)

    return _Entry(event.timestamp, build)


# --- Decoders of events ---

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
