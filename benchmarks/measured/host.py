"""Rows of transfers between an IPU and its host."""

from __future__ import annotations

import re

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.chip.streams import host_cycles

from .prediction import Prediction
from .rows import NotExpressible, Row
from .units import of_time

HOST = "transfer to the host"

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
