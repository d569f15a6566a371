"""Builders of trace events, one function for each type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.runtime import event_payloads

if TYPE_CHECKING:
    from tensorflow_ipu.runtime.event_payloads import Traced


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
