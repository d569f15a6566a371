"""Rows of data that move between tiles, on a chip and over IPU-Links.

These are exchange, broadcast, gather, scatter, all-to-all and reduce. A pattern is described by the
bytes that its busiest tile receives and sends, by the bytes over the busiest connection between two
IPUs, and by its number of IPUs. Times contain one synchronisation.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import (
    broadcast_cycles,
    exchange_cycles,
    link_cycles,
    sync_cycles,
)
from tensorflow_ipu.costs.cost import TensorType
from tensorflow_ipu.costs.rules.reduction import reduction

from .harness import resources
from .prediction import Prediction
from .rows import NotExpressible, Row, checked_size, chip_of
from .units import is_bandwidth, is_time, of_bytes, of_time

#: Groups of rows: on one chip, and between chips.
ON_CHIP, BETWEEN = "exchange on the chip", "exchange between chips"

_PATTERN = re.compile(
    r"\b(broadcast|gather|scatter|all-to-all|point-to-point|permutation|random exchange|reduce)\b"
)
# Programs that have such a pattern in them, and slices of embeddings.
_OTHERS = re.compile(r"training|inference|embedding|stencil|replica|matmul|conv|loaded")
_SIZE = re.compile(r"\b(\d+(?:\.\d+)?)\s*-?(bytes?|b|kib|kb|mib|mb)\b")
_SCALES = {"b": 1, "byte": 1, "bytes": 1, "kb": 1e3, "kib": 1024, "mb": 1e6, "mib": 1024**2}
_IPUS = re.compile(r"\b(\d+) ipus?\b")
_LINKED = re.compile(r"\bother ipu\b|direct link|same board|ipu-links?\b")
_FIGURES = ("exchange", "on-chip sync")
_TILES = re.compile(r"\b(\d+) tiles\b|\((\d+)\)")
# A message so large that starting it does not count, in bytes of a tile.
_LARGE = 100 * 1024
_WORD = 4


class Pattern(NamedTuple):
    """A pattern of messages between tiles.

    Args:
        received: bytes that the busiest tile receives.
        sent: bytes that the busiest tile sends; the same data to several tiles count once.
        linked: bytes over the busiest connection between two IPUs.
        moved: bytes of all messages, as they arrive.
        destinations: tiles that receive the same data.
        sources: tiles that send to the busiest one.
    """

    received: float
    sent: float
    linked: float
    moved: float
    destinations: int = 1
    sources: int = 1


def predict(row: Row) -> Prediction | None:
    """Returns the prediction of a row; None if it is none of these patterns.

    Args:
        row: of any workload.

    Raises:
        NotExpressible: it lacks something.
    """
    if not knows(row):
        return None
    if not (is_time(row) or is_bandwidth(row)):
        raise NotExpressible(f"unit {row.unit} for an exchange")
    chip = chip_of(row)
    found = _PATTERN.search(row.workload.lower())
    if found is None:
        return _figure(row, chip)
    ipus, links = _ipus(row, chip)
    if found[1] == "reduce":
        cycles, moved = _reduction(row, chip, ipus, links)
    else:
        pattern = _pattern(row, found[1], chip, ipus)
        cycles, moved = _cycles(pattern, chip, ipus, links), pattern.moved
    seconds = cycles / chip.clock
    value = of_bytes(moved, seconds, row) if is_bandwidth(row) else of_time(seconds, row, chip)
    group = BETWEEN if is_between(row) else ON_CHIP
    return Prediction(row, f"{group} ({chip.title})", chip, value, fitted=True)


def knows(row: Row) -> bool:
    """Whether a row is one of these patterns."""
    workload = row.workload.lower()
    if _OTHERS.search(workload):
        return False
    return bool(_PATTERN.search(workload)) or workload in _FIGURES


def is_between(row: Row) -> bool:
    """Whether the messages of a row leave their IPU."""
    text = row.text
    if "on chip" in text or "on-chip" in text or "same ipu" in text:
        return False
    return _IPUS.search(text) is not None or _LINKED.search(text) is not None


def _figure(row: Row, chip: Chip) -> Prediction:
    """A constant that was fitted to one tile: cycles of a synchronisation or of some bytes."""
    match = _SIZE.search(row.metric.lower())
    if "sync" in row.workload.lower():
        cycles = sync_cycles(1, chip)
    elif match:
        # The slope: without what each exchange takes besides.
        size = float(match[1]) * _SCALES[match[2]]
        cycles = (exchange_cycles(size * _LARGE, chip) - exchange_cycles(size, chip)) / _LARGE
    else:
        raise NotExpressible("the size of the messages is not given")
    value = of_time(cycles / chip.clock, row, chip)
    return Prediction(row, f"{ON_CHIP} ({chip.title})", chip, value, fitted=True)


def _ipus(row: Row, chip: Chip) -> tuple[int, int]:
    """Number of IPUs that take part, and links between neighbours.

    IPUs of a board are the pair that has most links.
    """
    if not is_between(row):
        return 1, 0
    match = _IPUS.search(row.text)
    ipus = checked_size(int(match[1]), "IPUs") if match else 2
    return max(ipus, 2), chip.pair_links if "same board" in row.text else chip.ring_links


def _hops(text: str, ipus: int) -> int:
    """Steps from an IPU to the farthest one: along a ladder with two IPUs on a rung."""
    return 2 if "no direct link" in text else max(1, ipus // 2)


def _bytes(row: Row) -> float:
    """Bytes of a message.

    Raises:
        NotExpressible: the row does not give them.
    """
    match = _SIZE.search(row.workload.lower()) or _SIZE.search(row.text)
    if match:
        return float(match[1]) * _SCALES[match[2]]
    if "large message" in row.text:
        return _LARGE
    raise NotExpressible("the size of the messages is not given")


def _pattern(row: Row, kind: str, chip: Chip, ipus: int) -> Pattern:
    """The bytes of a pattern."""
    size = _bytes(row)
    if kind == "point-to-point":
        return Pattern(size, size, size if ipus > 1 else 0, size)
    tiles = _tiles(row, chip, ipus)
    # Tiles of an IPU; of several IPUs all take part.
    each = -(-tiles // ipus) if ipus > 1 else tiles
    if kind == "broadcast":
        return Pattern(size, size, size if ipus > 1 else 0, size * tiles, tiles)
    if kind == "gather":
        linked = size * each * (ipus > 1)
        return Pattern(size * tiles, size, linked, size * tiles, sources=tiles)
    if kind == "scatter":
        return Pattern(size, size * tiles, size * each * (ipus > 1), size * tiles)
    if kind == "all-to-all":
        others = max(tiles - 1, 1)
        return Pattern(size * others, size * others, size * each**2 * (ipus > 1), size * tiles**2)
    # Each tile sends to one other. Over links all or, of random partners, most leave their IPU.
    if ipus > 1:
        one_way = "one way" in row.text
        crossing = size * (tiles if one_way else tiles / 2 * (ipus - 1) / ipus)
        return Pattern(size, size, crossing, size * tiles)
    return Pattern(size, size, 0, size * tiles)


def _tiles(row: Row, chip: Chip, ipus: int) -> int:
    """Tiles that send or receive, of all IPUs."""
    given = row.whole(
        "tiles", "destination tiles", "source tiles", "concurrent transfers", "transfers"
    )
    if given is not None:
        return given
    match = _TILES.search(row.text)
    if match:
        return checked_size(int(match[1] or match[2]), "the number of tiles")
    if ipus == 1:
        raise NotExpressible("the number of tiles is not given")
    return chip.tiles * (1 if "other ipu" in row.text else ipus)


def _cycles(pattern: Pattern, chip: Chip, ipus: int, links: int) -> float:
    """Cycles of a pattern, with one synchronisation."""
    if ipus == 1:
        if pattern.destinations > 1:
            return sync_cycles(1, chip) + broadcast_cycles(
                pattern.received, pattern.destinations, chip
            )
        moving = exchange_cycles(max(pattern.received, pattern.sent), chip)
        if pattern.sources > 1:
            # The words of far tiles are on their way while those of near ones arrive.
            moving = max(moving - chip.exchange_overhead, chip.exchange_overhead)
        return sync_cycles(1, chip) + moving
    # Data go on over the links while they arrive, and a tile takes them at the part of its rate
    # that links carry.
    received = max(pattern.received, pattern.sent) / chip.exchange_rate / chip.link_efficiency
    linked = link_cycles(pattern.linked, chip, links)
    return sync_cycles(ipus, chip) + max(linked, received + chip.link_latency * chip.clock)


def _reduction(row: Row, chip: Chip, ipus: int, links: int) -> tuple[float, float]:
    """Cycles of a sum to one value, and the bytes that it reads."""
    operands = row.whole("operands per tile", "elements per tile")
    if operands is None:
        raise NotExpressible("the number of operands is not given")
    tiles = -(-_tiles(row, chip, ipus) // ipus)
    cycles = _sum_cycles(row, chip, tiles, operands)
    if ipus > 1:
        # The sums of the IPUs meet on one of them.
        hops = _hops(row.text, ipus)
        cycles += sync_cycles(ipus, chip) + hops * link_cycles(_WORD * ipus, chip, links)
        cycles += _sum_cycles(row, chip, 1, ipus)
    return cycles, float(_WORD * operands * tiles * ipus)


def _sum_cycles(row: Row, chip: Chip, tiles: int, operands: int) -> float:
    """Cycles of a sum of values on some tiles to one value."""
    values = TensorType("float32", (tiles * operands,))
    return reduction("Sum", values, 1, True, resources(row, chip, tiles=tiles)).cycles
