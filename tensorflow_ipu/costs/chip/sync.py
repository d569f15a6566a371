"""Cycles that tiles and IPUs wait for each other."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip

# There and back: the request to all and the answer from all.
_WAYS = 2


def hops(ipus: int) -> float:
    """Returns the steps that a synchronization takes from one end of a ladder of IPUs to the other.

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
