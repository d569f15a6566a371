"""Rows that cannot be right, with the reason: they are shown, and not compared.

No rule looks at a prediction: a row is judged by its own text, and by rows of the same source.
"""

from __future__ import annotations

from collections.abc import Sequence

from .rows import NotExpressible, Row, chip_of
from .units import is_rate

#: How the reason of a row that is left out begins.
LEFT_OUT = "left out"

# A dip to less than this part of both neighbours.
_DIP = 0.5
_TAPS, _BATCH = 49, 2
_VERTICES = f"{LEFT_OUT}: fewer cycles than for half the batch, and more products than the unit has"
_DIPS = (
    f"{LEFT_OUT}: below half of the throughput of both the next smaller and the next larger batch"
)
# A throughput of less than this part of that with more host processes.
_FED = 0.9
_HOST = f"{LEFT_OUT}: the host decides: the same machine is faster with more host processes"


def implausible(rows: Sequence[Row]) -> dict[int, str]:
    """Returns the reason for each row that cannot be right, by its place in the sequence.

    * Vertices of 7x7 filters with a batch of 2: the source has fewer cycles than for half the
      batch, and up to 107 products in a cycle. The unit has 64.
    * Convolutions whose throughput is below half of that of the next smaller and of the next larger
      batch, with all else equal: rows of 1.0 and 2.0 TFLOP/s, between neighbours of 3 to 50.
    * Training whose host processes (`instances`) are too few for its replicas: the same source has
      a throughput more than 11 % higher of the same model, chip and replicas with more of them.

    Args:
        rows: of one file.
    """
    found = {place: _VERTICES for place, row in enumerate(rows) if _is_vertex(row)}
    by_layer: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for place, row in enumerate(rows):
        batch = _whole(row, "batch")
        if batch and row.unit == "TFLOP/s" and "cin" in row.parameters:
            by_layer.setdefault(_layer(row), []).append((batch, place))
    for members in by_layer.values():
        places = [place for _, place in sorted(members)]
        for before, place, after in zip(places, places[1:], places[2:]):
            if rows[place].value < _DIP * min(rows[before].value, rows[after].value):
                found[place] = _DIPS
    return found | dict.fromkeys(_starved(rows), _HOST)


def _starved(rows: Sequence[Row]) -> list[int]:
    """Places of training rows that more host processes make faster."""
    by_machine: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for place, row in enumerate(rows):
        instances = _whole(row, "instances")
        if instances and is_rate(row):
            by_machine.setdefault(_machine(row), []).append((instances, place))
    return [
        place
        for members in by_machine.values()
        for instances, place in members
        if any(
            more > instances and rows[place].value < _FED * rows[other].value
            for more, other in members
        )
    ]


def _machine(row: Row) -> tuple[object, ...]:
    """Source, model, chip and replicas of a row of training."""
    try:
        chip = chip_of(row).name
    except NotExpressible:
        chip = row.chip
    return row.source, row.workload.split(",")[0], chip, _whole(row, "replicas"), row.metric


def _is_vertex(row: Row) -> bool:
    """Whether a row is of the vertices whose cycles are too few."""
    given = _whole(row, "kernel area"), _whole(row, "batch")
    return "vertex" in row.workload.lower() and given == (_TAPS, _BATCH)


def _whole(row: Row, name: str) -> int | None:
    try:
        return row.whole(name)
    except NotExpressible:
        return None


def _layer(row: Row) -> tuple[object, ...]:
    """Returns the identity of a row without its batch size and measured value."""
    others = tuple(sorted((k, v) for k, v in row.parameters.items() if k != "batch"))
    return row.source, row.chip, row.workload, row.metric, others
