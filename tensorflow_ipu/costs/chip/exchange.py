"""Cycles of exchange between tiles, IPU-Links, host transfers, streaming memory and sync."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.label import Label, label_of

# --- Sync ---

# There and back: the request to all and the answer from all.
_WAYS = 2


def hops(ipus: int) -> float:
    """Returns the steps of a synchronization from one end of a ladder of IPUs to the other.

    Formula: `1 + (ipus / 2) / 2`: a ladder has two IPUs per rung, and the middle collects. Source:
    the hardware model in the tests of graphcore/poplibs.

    Args:
        ipus: number of IPUs that wait for each other, 2 or more.
    """
    return 1 + (ipus / 2) / 2


def sync_cycles(ipus: int, chip: Chip) -> float:
    """Returns the cycles of one synchronization.

    Formula: on one IPU a constant of the chip; among several that constant plus
    `2 x hops x time per hop x clock`. Source: see `hops`; the figures are the chip's.

    Args:
        ipus: number of IPUs that wait for each other; 1 for the tiles of one IPU.
        chip: the chip.
    """
    within = float(chip.sync_cycles)
    if ipus <= 1:
        return within
    return within + _WAYS * hops(ipus) * chip.sync_hop_time * chip.clock


# --- Exchange between tiles ---


def exchange_cycles(bytes_per_tile: float, chip: Chip) -> float:
    """Returns the cycles of one exchange phase.

    Formula: `ceil(bytes / rate) + overhead`, with the bytes that the busiest tile receives. Only
    receiving counts: sending goes on at the same time and one send feeds any number of receivers.
    Source: the exchange estimate of the convolution planner in graphcore/poplibs; rate and overhead
    are figures of the chip.

    Args:
        bytes_per_tile: bytes that the tile receives which receives most.
        chip: the chip.

    Returns:
        Cycles; 0 when nothing is received.
    """
    if bytes_per_tile <= 0:
        return 0.0
    return float(-(-bytes_per_tile // chip.exchange_rate) + chip.exchange_overhead)


def broadcast_cycles(num_bytes: float, destinations: int, chip: Chip) -> float:
    """Returns the cycles of one exchange phase that sends the same data to several tiles.

    Formula: that of `exchange_cycles`, at `tiles_per_bus` times the rate if more tiles receive than
    share a bus: neighbours on a bus then receive two words in a cycle. Source: Jia et al.
    (arXiv:1912.03413), 12.6 GB/s for each of 16 tiles and more, 6.35 GB/s for each of two.

    Args:
        num_bytes: bytes that each tile receives.
        destinations: tiles that receive them.
        chip: the chip.

    Returns:
        Cycles; 0 when nothing is received.
    """
    width = chip.tiles_per_bus if destinations > chip.tiles_per_bus else 1
    return exchange_cycles(num_bytes / width, chip)


# --- Copies over links ---

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
    """Returns the number of links between two IPUs.

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
    """Returns the label of the cycles of a copy."""
    return label_of(chip, *_FIGURES)


# --- Host and streaming memory ---

# An IPU and whom it exchanges data with wait for each other like two IPUs.
_PARTNERS = 2


def host_cycles(num_bytes: float, chip: Chip, ahead: bool = False) -> float:
    """Returns the cycles of one transfer between an IPU and its host.

    Formula: `sync + bytes / bandwidth x clock`, one direction. The bandwidth is that of the slower
    of two ways, between host and machine and between machine and IPU; of data that the machine has
    already, that of the second. Source: the figures of the chip.

    Args:
        num_bytes: size of the transfer.
        chip: the chip.
        ahead: whether the machine fetched the data ahead.

    Returns:
        Cycles; 0 when nothing is transferred.
    """
    if num_bytes <= 0:
        return 0.0
    bandwidth = chip.host_bandwidth
    if not ahead:
        bandwidth = min(bandwidth, chip.network_bandwidth)
    return sync_cycles(_PARTNERS, chip) + num_bytes / bandwidth * chip.clock


def network_cycles(num_bytes: float, chip: Chip) -> float:
    """Returns the cycles of data between the host and the machine of an IPU.

    Args:
        num_bytes: size of the data.
        chip: the chip.
    """
    return num_bytes / chip.network_bandwidth * chip.clock


def host_label(chip: Chip) -> Label:
    """Returns the label of the cycles of a host transfer."""
    return label_of(chip, "host_bandwidth", "network_bandwidth", "sync_hop_time")


def streaming_cycles(num_bytes: float, chip: Chip) -> float:
    """Returns the cycles of one transfer between an IPU and its streaming memory.

    Formula: `chunks x sync + bytes / bandwidth x clock`: a transfer is cut into chunks of at most
    `transfer_chunk` bytes. Source: the UoB-HPC cookbook for the chunks; the bandwidth of an IPU is
    its share of its machine's and uncertain.

    Args:
        num_bytes: size of the transfer.
        chip: the chip.

    Returns:
        Cycles; 0 when nothing is transferred.
    """
    if num_bytes <= 0:
        return 0.0
    chunks = -(-num_bytes // chip.transfer_chunk)
    start = chunks * sync_cycles(_PARTNERS, chip)
    return start + num_bytes / chip.streaming_bandwidth * chip.clock


def streaming_label(chip: Chip) -> Label:
    """Returns the label of the cycles of a transfer of streaming memory."""
    return label_of(chip, "streaming_bandwidth", "sync_hop_time")
