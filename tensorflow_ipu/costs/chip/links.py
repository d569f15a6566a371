"""Cycles of copies over IPU-Links and between groups of IPUs."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.figures import label_of
from tensorflow_ipu.costs.label import Label

_FIGURES = ("link_bandwidth", "link_efficiency", "link_latency", "pair_links", "ring_links")


def link_rate(chip: Chip, links: int) -> float:
    """Returns the bytes per cycle and direction over some IPU-Links.

    Formula: `links x bandwidth x efficiency / clock`. Source: the hardware model in the tests of
    graphcore/poplibs, 128 Gbit/s per link and direction, of which 85 % carry data.

    Args:
        chip: the chip.
        links: number of links that share the work.
    """
    return links * chip.link_bandwidth * chip.link_efficiency / chip.clock


def links_between(source: int, destination: int, chip: Chip) -> int:
    """Returns how many links join two IPUs.

    IPUs form a ladder: 0 and 1 are a pair, 2 and 3 the next. Source: as for `link_rate`.

    Args:
        source: an IPU.
        destination: another.
        chip: the chip.
    """
    return chip.pair_links if source // 2 == destination // 2 else chip.ring_links


def link_cycles(num_bytes: float, chip: Chip, links: int | None = None) -> float:
    """Returns the cycles of one copy from an IPU to another.

    Formula: `bytes / rate + latency`. Source: see `link_rate`; the latency is a figure of the chip.

    Args:
        num_bytes: size of the copy.
        chip: the chip.
        links: number of links that share the work; those of a ring if left out.

    Returns:
        Cycles; 0 when nothing is copied.
    """
    if num_bytes <= 0:
        return 0.0
    rate = link_rate(chip, chip.ring_links if links is None else links)
    return num_bytes / rate + chip.link_latency * chip.clock


def link_label(chip: Chip) -> Label:
    """Returns how far the cycles of a copy can be trusted."""
    return label_of(chip, *_FIGURES)
