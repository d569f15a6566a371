"""Costs of collectives over replicas.

N replicas each have M bytes on one IPU, and its counterparts in all replicas form a ring. The IPUs
of a replica each have a ring of their own. All run at once over the same ladder of two rails, which
R IPUs per replica share: each ring has `ring_links / max(1, R / 2)` links, of B bytes per cycle and
direction, of which collectives reach `collective_efficiency`. A step from one IPU to the next takes
`a` cycles besides its bytes.

The formulas are those of ring algorithms: see the Graphcore Communication Library's user guide for
the rings, directions and meeting in the middle, and any text on collectives for the sums. Each
function takes the fastest of its algorithms, as all are monotone in bytes and replicas.

IPU-Links join up to 64 IPUs. Beyond, gateways join such domains: n replicas per domain, m domains.
The gateways of a machine have one connection each way round the domains, which its IPUs share and
of which collectives reach `gateway_efficiency`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import link_label, link_rate, sync_cycles
from tensorflow_ipu.costs.cost import FREE, Cost
from tensorflow_ipu.costs.label import label_of, worst
from tensorflow_ipu.util import op_names

# Adding two vectors of 8 bytes takes a worker 3 instructions, and a tile issues one per cycle.
# Source: the cost estimate of binary elementwise operations in graphcore/poplibs.
_VECTOR_BYTES = 8
_VECTOR_CYCLES = 3

#: Returns the cost of a collective for bytes, replicas, IPUs per replica and a chip.
Formula = Callable[[int, int, int, Chip], Cost]


class _Ring(NamedTuple):
    """A ring of IPUs, or of domains.

    Args:
        number: of members.
        rate: bytes per cycle from one to the next, per direction.
        latency: cycles of a step besides its bytes.
    """

    number: int
    rate: float
    latency: float

    def scatter(self, num_bytes: float) -> float:
        """Returns the cycles of a reduce-scatter or all-gather by two rings, one each way.

        Formula: `(N - 1) (M / (2 N B) + a)`.
        """
        return (self.number - 1) * (num_bytes / (2 * self.number * self.rate) + self.latency)

    def middle(self, num_bytes: float) -> float:
        """Returns the cycles from both ends of the ring to the middle, or back.

        Formula: `floor(N / 2) (M / B + a)`: few steps, but each with all bytes.
        """
        return self.number // 2 * (num_bytes / self.rate + self.latency)

    def to_all(self, num_bytes: float) -> float:
        """Returns the cycles from one IPU to all, both ways, in fragments one after the other.

        Formula: `M / B + floor(N / 2) a`.
        """
        return num_bytes / self.rate + self.number // 2 * self.latency

    def exchange(self, num_bytes: float) -> float:
        """Returns the cycles of all to all, each by the shorter way.

        Formula: `M floor(N^2 / 4) / (2 N B) + floor(N / 2) a`: M / N bytes go to each other
        replica, N / 4 steps away on average, and both directions share the load.
        """
        steps = self.number**2 // 4 / (2 * self.number)
        return num_bytes * steps / self.rate + self.number // 2 * self.latency


class _Net(NamedTuple):
    """The rings of a collective: inside a domain, and over domains; None if there is one."""

    inside: _Ring
    outside: _Ring | None


def all_reduce(num_bytes: int, replicas: int, ipus_per_replica: int, chip: Chip) -> Cost:
    """Returns the cost of a sum over replicas, whose result is on all of them.

    Formula: the least of reduce-scatter then all-gather, `2 (N - 1) (M / (2 N B) + a)`; meeting in
    the middle and back, `2 floor(N / 2) (M / B + a)`; and all sending all they have,
    `floor(N / 2) (M / B + a)`, with N - 1 additions on each. Over domains: reduce-scatter inside,
    the sum of M / n outside, all-gather inside; or both sums whole.

    Args:
        num_bytes: bytes of the tensor on one IPU of a replica.
        replicas: number of replicas.
        ipus_per_replica: IPUs of each.
        chip: the chip.
    """
    if replicas <= 1 or num_bytes <= 0:
        return FREE
    inside, outside = _net(replicas, ipus_per_replica, chip)
    links, adds = min(_sums(inside, num_bytes), key=lambda option: _together(option, chip))
    if outside is not None:
        part = num_bytes / inside.number
        by_parts = 2 * inside.scatter(num_bytes), _scatter_adds(inside, num_bytes)
        options = [(by_parts[0] + more[0], by_parts[1] + more[1]) for more in _sums(outside, part)]
        options += [(links + more[0], adds + more[1]) for more in _sums(outside, num_bytes)]
        links, adds = min(options, key=lambda option: _together(option, chip))
    return _cost(links, adds, replicas * ipus_per_replica, chip)


def reduce_scatter(num_bytes: int, replicas: int, ipus_per_replica: int, chip: Chip) -> Cost:
    """Returns the cost of a sum over replicas, each of which gets a part of the result.

    Formula: `(N - 1) (M / (2 N B) + a)` and additions of `(N - 1) M / N` bytes. Over domains: the
    same inside, then with M / n outside.

    Args:
        num_bytes: bytes of the whole tensor, as each replica has it before.
        replicas: number of replicas.
        ipus_per_replica: IPUs of each.
        chip: the chip.
    """
    return _scattered(num_bytes, replicas, ipus_per_replica, chip, adds=True)


def all_gather(num_bytes: int, replicas: int, ipus_per_replica: int, chip: Chip) -> Cost:
    """Returns the cost of sending each replica's part to all others.

    Formula: that of `reduce_scatter` without additions.

    Args:
        num_bytes: bytes of the whole tensor, as each replica has it afterwards.
        replicas: number of replicas.
        ipus_per_replica: IPUs of each.
        chip: the chip.
    """
    return _scattered(num_bytes, replicas, ipus_per_replica, chip, adds=False)


def all_to_all(num_bytes: int, replicas: int, ipus_per_replica: int, chip: Chip) -> Cost:
    """Returns the cost of sending a part of each replica's tensor to each other replica.

    Formula: see `_Ring.exchange`; over domains, inside and then M outside.

    Args:
        num_bytes: bytes of the whole tensor on one replica.
        replicas: number of replicas.
        ipus_per_replica: IPUs of each.
        chip: the chip.
    """
    if replicas <= 1 or num_bytes <= 0:
        return FREE
    inside, outside = _net(replicas, ipus_per_replica, chip)
    links = inside.exchange(num_bytes)
    if outside is not None:
        links += outside.exchange(num_bytes)
    return _cost(links, 0.0, replicas * ipus_per_replica, chip)


def broadcast(num_bytes: int, replicas: int, ipus_per_replica: int, chip: Chip) -> Cost:
    """Returns the cost of sending one replica's tensor to all others.

    Formula: `M / B + floor(N / 2) a`. Over domains: inside, M outside, inside.

    Args:
        num_bytes: bytes of the tensor.
        replicas: number of replicas.
        ipus_per_replica: IPUs of each.
        chip: the chip.
    """
    if replicas <= 1 or num_bytes <= 0:
        return FREE
    inside, outside = _net(replicas, ipus_per_replica, chip)
    links = inside.to_all(num_bytes)
    if outside is not None:
        links += outside.to_all(num_bytes)
    return _cost(links, 0.0, replicas * ipus_per_replica, chip)


#: Formula of each collective on links, by op type.
FORMULAS: Mapping[str, Formula] = {
    op_names.CROSS_REPLICA_SUM: all_reduce,
    op_names.REDUCE_SCATTER: reduce_scatter,
    op_names.ALL_GATHER: all_gather,
    op_names.ALL_TO_ALL: all_to_all,
    op_names.REPLICA_BROADCAST: broadcast,
}


def _net(replicas: int, ipus_per_replica: int, chip: Chip) -> _Net:
    """Returns the rings over a number of replicas."""
    in_domain = max(1, chip.link_domain // ipus_per_replica)
    sharing = max(1.0, ipus_per_replica / 2)
    rate = link_rate(chip, chip.ring_links) * chip.collective_efficiency / sharing
    inside = _Ring(min(replicas, in_domain), rate, chip.link_latency * chip.clock)
    if replicas <= in_domain:
        return _Net(inside, None)
    domains = -(-replicas // in_domain)
    rate = chip.gateway_bandwidth * chip.gateway_efficiency / chip.clock
    return _Net(inside, _Ring(domains, rate, chip.gateway_latency * chip.clock))


def _sums(ring: _Ring, num_bytes: float) -> list[tuple[float, float]]:
    """Returns for each way to sum the cycles on links and the added bytes."""
    return [
        (2 * ring.scatter(num_bytes), _scatter_adds(ring, num_bytes)),
        (2 * ring.middle(num_bytes), ring.number // 2 * num_bytes),
        (ring.middle(num_bytes), (ring.number - 1) * num_bytes),
    ]


def _scatter_adds(ring: _Ring, num_bytes: float) -> float:
    """Returns the bytes that each IPU adds in a reduce-scatter."""
    return (ring.number - 1) / ring.number * num_bytes


def _scattered(
    num_bytes: int, replicas: int, ipus_per_replica: int, chip: Chip, adds: bool
) -> Cost:
    """Prices a reduce-scatter, with additions, or an all-gather."""
    if replicas <= 1 or num_bytes <= 0:
        return FREE
    links = added = 0.0
    part = float(num_bytes)
    for ring in _net(replicas, ipus_per_replica, chip):
        if ring is not None:
            links += ring.scatter(part)
            added += _scatter_adds(ring, part) if adds else 0.0
            part /= ring.number
    return _cost(links, added, replicas * ipus_per_replica, chip)


def _adding(num_bytes: float, chip: Chip) -> float:
    """Returns the cycles of adding a number of bytes, evenly on all tiles."""
    return num_bytes / chip.tiles / _VECTOR_BYTES * _VECTOR_CYCLES


def _together(option: tuple[float, float], chip: Chip) -> float:
    """Returns all cycles of a way to sum."""
    links, adds = option
    return links + _adding(adds, chip)


def _cost(links: float, adds: float, ipus: int, chip: Chip) -> Cost:
    """Returns the cost of a collective: steps on the links, additions, one synchronization."""
    label = link_label(chip)
    if ipus > chip.link_domain:
        label = worst((label, label_of(chip, "gateway_bandwidth", "gateway_latency")))
    sync = sync_cycles(min(ipus, chip.link_domain), chip)
    return Cost(compute=_adding(adds, chip), exchange=links, sync=sync, label=label)
