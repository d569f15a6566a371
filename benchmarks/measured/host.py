"""Rows of transfers between an IPU and its host."""

from __future__ import annotations

import re

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.chip.exchange import host_cycles

from .harness import LAUNCH
from .prediction import Prediction
from .rows import NotExpressible, Row, checked_size, chip_of
from .units import is_bandwidth, of_bytes, of_time

HOST, STREAM = "transfer to the host", "stream of the host"

_PER_TILE = re.compile(r"([\d.]+) ?(bytes|kb) per tile")
_IPUS = re.compile(r"(\d+) ipus?")
_SCALES = {"bytes": 1.0, "kb": 1e3}
_MEGABYTES = re.compile(r"([\d.]+) mb\b")
# A transfer in which its start does not count.
_LARGE = 1e9


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is none of these.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    metric = row.metric.lower()
    if "host to ipu stream" in row.workload.lower():
        return _stream(row)
    # Rows name several chips, which have the same interface.
    chip = chips.BOW
    if metric == "bandwidth" and "device-to-host" in row.text:
        rate = _LARGE / (host_cycles(_LARGE, chip) / chip.clock)
        if row.unit != "GB/s":
            raise NotExpressible(f"unit {row.unit} for a bandwidth")
        return Prediction(row, HOST, chip, rate / 1e9)
    if metric != "transfer time":
        return None
    size = _MEGABYTES.search(row.text)
    if size is None:
        raise NotExpressible("the size of the transfer is not given")
    seconds = host_cycles(float(size[1]) * 1e6, chip) / chip.clock
    return Prediction(row, HOST, chip, of_time(seconds, row, chip))


def _stream(row: Row) -> Prediction:
    """A stream from the host to some tiles: launch, then the bytes at the rate of the interface."""
    chip = chip_of(row)
    size = _PER_TILE.search(row.text)
    if size is None:
        raise NotExpressible("the size of the transfer is not given")
    match = _IPUS.search(row.text)
    ipus = checked_size(int(match[1]), "IPUs") if match else 1
    tiles = row.whole("tiles") or chip.tiles * ipus
    num_bytes = float(size[1]) * _SCALES[size[2]] * tiles
    # Each IPU has an interface of its own.
    seconds = LAUNCH + host_cycles(num_bytes / ipus, chip) / chip.clock
    value = of_bytes(num_bytes, seconds, row) if is_bandwidth(row) else of_time(seconds, row, chip)
    return Prediction(row, f"{STREAM} ({chip.title})", chip, value, fitted=True)
