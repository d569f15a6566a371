"""Cycles of the exchange between the tiles of one IPU."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip


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
