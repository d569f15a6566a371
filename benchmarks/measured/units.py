"""Units of measured values, and their conversion to seconds."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip

from .rows import NotExpressible, Row

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
# In lower case: sources write them in several ways.
_FLOPS = {
    **dict.fromkeys(("pflop/s", "pflops"), 1e15),
    **dict.fromkeys(("tflop/s", "tflops"), 1e12),
    **dict.fromkeys(("gflop/s", "gflops"), 1e9),
}
_BYTES = {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6}
_ELEMENTS = {"Gelement/s": 1e9, "Gelements/s": 1e9, "Melement/s": 1e6}
# What a model takes one of at a time. Tokens are not: a sequence has many.
_ITEMS = frozenset({"items/s", "samples/s", "images/s", "sequences/s"})


def is_time(row: Row) -> bool:
    """Whether a row is a time or a number of cycles."""
    return row.unit in _SECONDS or row.unit == "cycles"


def is_flops(row: Row) -> bool:
    """Whether a row is a number of floating-point operations per second."""
    return row.unit.lower() in _FLOPS


def is_rate(row: Row) -> bool:
    """Whether a row is a number of items per second."""
    return row.unit in _ITEMS


def of_time(seconds: float, row: Row, chip: Chip) -> float:
    """Returns a time in the unit of a row.

    Args:
        seconds: the time.
        row: gives the unit.
        chip: whose clock counts cycles.

    Raises:
        NotExpressible: the row is no time.
    """
    if row.unit == "cycles":
        return seconds * chip.clock
    if row.unit not in _SECONDS:
        raise NotExpressible(f"unit {row.unit} for a time")
    return seconds / _SECONDS[row.unit]


def of_flops(operations: float, seconds: float, row: Row) -> float:
    """Returns floating-point operations in some seconds as a rate in the unit of a row."""
    return operations / seconds / _FLOPS[row.unit.lower()]


def of_work(operations: float, seconds: float, row: Row, chip: Chip) -> float:
    """Returns the time of some floating-point operations, or their rate, in the unit of a row.

    Args:
        operations: their number.
        seconds: the time that they take.
        row: gives the unit.
        chip: whose clock counts cycles.

    Raises:
        NotExpressible: the row is neither a time nor such a rate.
    """
    if is_flops(row):
        return of_flops(operations, seconds, row)
    return of_time(seconds, row, chip)


def of_bytes(num_bytes: float, seconds: float, row: Row) -> float:
    """Returns bytes in some seconds as a bandwidth in the unit of a row.

    Raises:
        NotExpressible: the row is no bandwidth.
    """
    if row.unit not in _BYTES:
        raise NotExpressible(f"unit {row.unit} for a bandwidth")
    return num_bytes / seconds / _BYTES[row.unit]


def is_bandwidth(row: Row) -> bool:
    """Whether a row is a number of bytes per second."""
    return row.unit in _BYTES


def of_elements(elements: float, seconds: float, row: Row, chip: Chip) -> float:
    """Returns elements in some seconds as a rate, or the time, in the unit of a row.

    Raises:
        NotExpressible: the row is neither a time nor such a rate.
    """
    if row.unit in _ELEMENTS:
        return elements / seconds / _ELEMENTS[row.unit]
    return of_time(seconds, row, chip)


def seconds_per_item(value: float, row: Row, chip: Chip) -> float:
    """Returns a value of a row as a time, so that all rows can be ranked together.

    Times and cycles become seconds; rates become seconds for one item, teraflop or gigabyte.

    Args:
        value: in the unit of the row, greater than 0.
        row: gives the unit.
        chip: whose clock counts cycles.
    """
    if row.unit == "cycles":
        return value / chip.clock
    if row.unit in _SECONDS:
        return value * _SECONDS[row.unit]
    if is_flops(row):
        return 1e12 / (value * _FLOPS[row.unit.lower()])
    return 1 / value
