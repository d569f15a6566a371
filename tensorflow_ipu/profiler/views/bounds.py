"""The bound of an op (AMP, load/store, exchange, sync ...), and its share of the roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorflow_ipu import op_names
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.planner.time.items import COLLECTIVE, HOST, LINK, STREAMING
from tensorflow_ipu.profiler.views.work import OpWork

AMP = "AMP"
VECTOR = "vector"
LOAD_STORE = "load/store"
EXCHANGE = "exchange"
SYNC = "sync"

#: The possible bounds of an op or transfer, with their meanings.
BOUNDS: Mapping[str, str] = {
    AMP: "multiply-adds of the matrix units",
    VECTOR: "arithmetic of the vector units",
    LOAD_STORE: "reads and writes of the tiles' own memory",
    EXCHANGE: "data that tiles receive from each other",
    SYNC: "synchronization of the tiles and starts of vertices, which take as long on one element",
    HOST: "the link to the host",
    STREAMING: "streaming memory",
    LINK: "the links between IPUs",
}
_OF_TRANSFERS = {HOST: HOST, STREAMING: STREAMING, LINK: LINK, COLLECTIVE: LINK}

# Bytes that a load or store of a vertex moves: 64 bits, one of them per instruction. Compiled
# vertices reach 3.7 B per cycle and tile in STREAM on GC2 (Louw and McIntosh-Smith, 2021).
_ACCESS_BYTES = 8


class Roofline(NamedTuple):
    """An op's attained share of the chip's peak, with its arithmetic intensity.

    Args:
        intensity: floating-point operations per byte of operands and results; None without any.
        attainable: operations per second of one IPU at the roof; None without operations.
        share: cycles at the roof / cycles taken, 0 to 1.
    """

    intensity: float | None
    attainable: float | None
    share: float


def of_op(work: OpWork, chip: Chip) -> str:
    """Returns the bound of an op on the tiles: the largest part of its cycles.

    The parts are exchange, fixed costs (sync, and compute on single elements) and the rest of its
    compute. If the rest is largest, a product is bound by the matrix units, unless its operands
    take longer to load than its multiply-adds. Ops that move data are bound by loads and stores. So
    are other vertices if loads and stores, of 64 bits each, are half of their cycles or more; else
    they are bound by vector arithmetic.

    Args:
        work: least work and cost of the op.
        chip: the chip.

    Returns:
        One of the names of `BOUNDS`.
    """
    cost = work.cost
    computed = cost.compute - work.fixed
    parts = {"": computed, EXCHANGE: cost.exchange, SYNC: cost.sync + work.fixed}
    longest = max(parts, key=lambda name: parts[name])
    if longest:
        return longest
    if work.matrix:
        return AMP if work.flops / work.peak >= work.read / chip.load_rate else LOAD_STORE
    accesses = (work.read + work.written) / _ACCESS_BYTES / max(work.tiles, 1)
    return LOAD_STORE if work.moves or 2 * accesses >= computed else VECTOR


def of_transfer(kind: str) -> str:
    """Returns the bound of a transfer.

    Args:
        kind: kind of its segments: `host`, `streaming`, `link` or `collective`.
    """
    return _OF_TRANSFERS[kind]


def roofline(work: OpWork, chip: Chip) -> Roofline:
    """Returns the share of the roofline that an op attains.

    Cycles at the roof are the most of: operations / peak rate of all tiles (of the matrix units for
    products, else one operation per lane and cycle of the vector units); bytes read / load rate of
    all tiles; bytes written / store rate; and, for ops that only move data between tiles, bytes
    written / exchange rate. Attainable rate = operations / that time. Source: Williams, Waterman
    and Patterson, "Roofline" (2009), with the rates of `configs/chips.py`.

    Args:
        work: least work and cost of the op.
        chip: the chip.
    """
    moves = work.moves and work.cost.exchange > 0
    cycles = max(
        work.flops / work.peak,
        work.read / chip.load_rate,
        work.written / chip.store_rate,
        work.written / chip.exchange_rate if moves else 0.0,
    )
    cycles /= chip.tiles
    moved = work.read + work.written
    return Roofline(
        work.flops / moved if moved and work.flops else None,
        work.flops / cycles * chip.clock if work.flops else None,
        min(cycles / work.cost.cycles, 1.0) if work.cost.cycles else 0.0,
    )


def transfer_share(kind: str, num_bytes: float, cycles: float, chip: Chip) -> float:
    """Returns the share of the bandwidth that a transfer attains.

    Bytes / bandwidth / time, with the bandwidth of the host, of streaming memory, of the links to
    the other IPU of a pair or, for collectives, of all links of an IPU.

    Args:
        kind: kind of its segments.
        num_bytes: that one IPU sends or receives in one run.
        cycles: of one run.
        chip: the chip.
    """
    bandwidth = {
        HOST: chip.host_bandwidth,
        STREAMING: chip.streaming_bandwidth,
        LINK: chip.pair_links * chip.link_bandwidth,
        COLLECTIVE: chip.link_bandwidth_total,
    }[kind]
    return min(num_bytes / bandwidth * chip.clock / cycles, 1.0) if cycles else 0.0


def collective_bytes(op_type: str, num_bytes: int, replicas: int) -> float:
    """Returns the least number of bytes that each replica of a collective sends.

    Of n replicas each sends (n - 1) / n of the tensor to others; for a sum that all get, twice:
    parts of the sums, then the sums. Source: any text on ring all-reduce.

    Args:
        op_type: type of the op; empty for the gathering of a variable.
        num_bytes: of the whole tensor.
        replicas: that do it together.
    """
    times = 2 if op_type == op_names.CROSS_REPLICA_SUM else 1
    return times * num_bytes * (replicas - 1) / max(replicas, 1)
