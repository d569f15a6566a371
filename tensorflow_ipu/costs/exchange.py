"""Cycles of exchange between the tiles of one IPU."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip

# Tiles that hang on one bus. Both can take the same data from it at once, each half of it.
TILES_PER_BUS = 2


def exchange_cycles(bytes_per_tile: float, chip: Chip, shared: bool = False) -> float:
    """Returns the cycles of one exchange phase.

    Formula: `ceil(bytes / rate) + overhead`, with the bytes that the busiest tile receives. Only
    receiving counts: sending goes on at the same time and one send feeds any number of receivers.
    Source: the exchange estimate of the convolution planner in graphcore/poplibs; rate and overhead
    are figures of the chip.

    Args:
        bytes_per_tile: bytes that the tile receives which receives most.
        chip: the chip.
        shared: whether the two tiles of each bus receive the same data, which doubles the rate.

    Returns:
        Cycles; 0 when nothing is received.
    """
    if bytes_per_tile <= 0:
        return 0.0
    rate = chip.exchange_rate * (TILES_PER_BUS if shared else 1)
    return float(-(-bytes_per_tile // rate) + chip.exchange_overhead)


def broadcast_cycles(num_bytes: float, chip: Chip) -> float:
    """Returns the cycles in which every tile gets all of some data.

    Formula: that of one exchange phase in which each tile receives all bytes; both tiles of a bus
    receive the same. However many tiles have parts of the data, all of them are heard.

    Args:
        num_bytes: size of the data.
        chip: the chip.
    """
    return exchange_cycles(num_bytes, chip, shared=True)
