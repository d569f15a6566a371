"""Cycles of transfers between an IPU and its host or its streaming memory."""

from __future__ import annotations

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import sync_cycles
from tensorflow_ipu.costs.figures import label_of
from tensorflow_ipu.costs.label import Label

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
    """Returns the cycles that data take between the host and the machine of an IPU.

    Args:
        num_bytes: size of the data.
        chip: the chip.
    """
    return num_bytes / chip.network_bandwidth * chip.clock


def host_label(chip: Chip) -> Label:
    """Returns how far the cycles of a host transfer can be trusted."""
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
    """Returns how far the cycles of a transfer of streaming memory can be trusted."""
    return label_of(chip, "streaming_bandwidth", "sync_hop_time")
