"""Costs of collectives over replicas, against the formulas of rings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK2
from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.cost import FREE
from tensorflow_ipu.costs.label import Label

ALL = {
    name: getattr(collectives, name)
    for name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
}
# Two links of 16 GB/s at 85 % each way, in bytes per cycle, of which collectives reach 33 %;
# latency of a step in cycles.
RATE = 2 * 16e9 * 0.85 * 0.33 / BOW.clock
STEP = 1.28e-6 * BOW.clock
LARGE = 1 << 30


def test_large_all_reduce_is_a_pair_of_rings():
    links = 2 * 15 / 16 * LARGE / (2 * RATE) + 2 * 15 * STEP
    cost = collectives.all_reduce(LARGE, 16, 1, BOW)
    assert cost.exchange == pytest.approx(links)
    # Each replica adds 15 sixteenths, 8 bytes in 3 instructions, on 1472 tiles.
    assert cost.compute == pytest.approx(15 / 16 * LARGE / 1472 / 8 * 3)


def test_small_all_reduce_takes_fewer_steps():
    cost = collectives.all_reduce(4, 16, 1, BOW)
    # All send all they have both ways round, 8 steps, instead of 30 on the rings.
    assert cost.exchange == pytest.approx(8 * (4 / RATE + STEP))


@pytest.mark.parametrize("replicas", [2, 4, 16, 64])
def test_large_all_reduce_is_scatter_then_gather(replicas):
    scattered = collectives.reduce_scatter(LARGE, replicas, 1, BOW)
    gathered = collectives.all_gather(LARGE, replicas, 1, BOW)
    whole = collectives.all_reduce(LARGE, replicas, 1, BOW)
    assert scattered.exchange + gathered.exchange == pytest.approx(whole.exchange)
    assert scattered.compute == pytest.approx(whole.compute)
    assert gathered.compute == 0


def test_all_to_all_of_four_by_hand():
    # Each sends a quarter to each neighbour and one by two steps: per direction M / 2 bytes.
    assert collectives.all_to_all(LARGE, 4, 1, BOW).exchange == pytest.approx(
        LARGE / 2 / RATE + 2 * STEP
    )


def test_broadcast_is_one_pass():
    assert collectives.broadcast(LARGE, 8, 1, BOW).exchange == pytest.approx(
        LARGE / RATE + 4 * STEP
    )


def test_ipus_of_a_replica_share_the_ladder():
    one = collectives.all_gather(LARGE, 4, 1, BOW).exchange
    four = collectives.all_gather(LARGE, 4, 4, BOW).exchange
    assert four - 3 * STEP == pytest.approx(2 * (one - 3 * STEP))


def test_gateways_are_used_beyond_64_ipus():
    inside = collectives.all_reduce(LARGE, 64, 1, BOW)
    outside = collectives.all_reduce(LARGE, 128, 1, BOW)
    # 100 Gbit/s each way for four IPUs, of which collectives reach 5 %: a 64th of the data
    # goes both ways round the two domains, there and back.
    rate = 100e9 / 8 / 4 * 0.05 / BOW.clock
    gateway = 2 * (LARGE / 64 / 4 / rate + 5e-6 * BOW.clock)
    assert outside.exchange - inside.exchange == pytest.approx(gateway)
    assert inside.label is Label.MODELLED
    assert outside.label is Label.ASSUMED  # the latency of gateways is


@pytest.mark.parametrize("name", ALL)
def test_alone_or_without_data_is_free(name):
    assert ALL[name](1000, 1, 1, MK2) is FREE
    assert ALL[name](0, 8, 1, MK2) is FREE


@pytest.mark.parametrize("name", ALL)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    num_bytes=st.integers(1, 1 << 32),
    more=st.integers(1, 1 << 32),
    replicas=st.integers(1, 300),
    ipus=st.sampled_from([1, 2, 4, 16]),
)
def test_rises_with_bytes_and_replicas(name, num_bytes, more, replicas, ipus):
    cost = ALL[name](num_bytes, replicas, ipus, BOW).cycles
    assert ALL[name](num_bytes + more, replicas, ipus, BOW).cycles >= cost
    assert ALL[name](num_bytes, replicas + 1, ipus, BOW).cycles >= cost * (1 - 1e-12)
