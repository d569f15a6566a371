"""Cycles of exchange on an IPU."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs.chips import BOW, CHIPS, MK1, MK2, Source, Status
from tensorflow_ipu.costs.chip.exchange import (
    broadcast_cycles,
    exchange_cycles,
    hops,
    host_cycles,
    host_label,
    link_cycles,
    link_label,
    link_rate,
    links_between,
    network_cycles,
    streaming_cycles,
    streaming_label,
    sync_cycles,
)
from tensorflow_ipu.costs.label import Label

# --- Synchronization ---


@pytest.mark.parametrize(("ipus", "expected"), [(2, 1.5), (4, 2), (16, 5), (64, 17)])
def test_hops_of_the_ladder_by_hand(ipus, expected):
    assert hops(ipus) == expected


def test_one_ipu_agrees_with_measurements():
    # 64, 117 and 117 cycles in the blur steps of thorbenlouw/lbm-graphcore.
    assert sync_cycles(1, MK1) == pytest.approx((64 + 117 + 117) / 3, rel=0.05)


def test_sixteen_ipus_agree_with_measurements():
    # 501, 642 and 640 cycles there.
    assert sync_cycles(16, MK1) == pytest.approx((501 + 642 + 640) / 3, rel=0.05)


def test_sync_cycles_by_hand():
    # 30 ns per hop at 1.325 GHz are 39.75 cycles; 2 hops, there and back.
    assert sync_cycles(4, MK2) == pytest.approx(100 + 4 * 39.75)


@pytest.mark.parametrize("chip", CHIPS, ids=repr)
def test_cycles_rise_with_ipus(chip):
    cycles = [sync_cycles(ipus, chip) for ipus in (1, 2, 4, 8, 16, 32, 64)]
    assert cycles == sorted(set(cycles))


# --- Exchange between tiles ---

# One step of a 3x3 blur on GC2 (thorbenlouw/lbm-graphcore): cycles of exchange by IPUs and type.
# float2 moves twice the bytes of half4, so the difference of two rows is the cycles of their bytes.
MEASURED = {1: {"half4": 637, "float2": 1173}, 16: {"half4": 263, "float2": 397}}


@pytest.mark.parametrize(("num_bytes", "transfer"), [(1, 1), (4, 1), (5, 2), (4096, 1024)])
def test_a_phase_moves_four_bytes_per_cycle(num_bytes, transfer):
    assert exchange_cycles(num_bytes, BOW) == transfer + BOW.exchange_overhead


def test_an_exchange_of_nothing_costs_nothing():
    assert exchange_cycles(0, BOW) == 0


@pytest.mark.parametrize("ipus", MEASURED)
@pytest.mark.parametrize("dtype", ["half4", "float2"])
def test_agrees_with_measured_stencils(ipus, dtype):
    rows = MEASURED[ipus]
    moved = 4 * (rows["float2"] - rows["half4"]) * (2 if dtype == "float2" else 1)
    assert exchange_cycles(moved, MK1) == pytest.approx(rows[dtype], rel=0.06)


@pytest.mark.parametrize("chip", CHIPS, ids=repr)
def test_cycles_rise_with_bytes(chip):
    cycles = [exchange_cycles(num_bytes, chip) for num_bytes in range(0, 64)]
    assert cycles == sorted(cycles)


@pytest.mark.parametrize(("destinations", "rate"), [(2, 6.35e9), (16, 12.6e9), (304, 12.53e9)])
def test_many_receivers_of_a_broadcast_take_two_words(destinations, rate):
    # GB/s of each tile, 100 KiB (Jia et al., table 4.9).
    cycles = broadcast_cycles(100 * 1024, destinations, MK1)
    assert 100 * 1024 / (cycles / MK1.clock) == pytest.approx(rate, rel=0.02)


def test_a_broadcast_is_never_slower_than_a_copy():
    for destinations in (1, 2, 3, 1000):
        assert broadcast_cycles(4096, destinations, BOW) <= exchange_cycles(4096, BOW)
    assert broadcast_cycles(0, 100, BOW) == 0


# --- IPU-Links ---


@pytest.mark.parametrize(("links", "bandwidth"), [(1, 13.6e9), (2, 27.2e9), (10, 136e9)])
def test_link_rate_is_85_percent_of_128_gbit(links, bandwidth):
    assert link_rate(MK2, links) * MK2.clock == pytest.approx(bandwidth)


def test_a_copy_by_hand():
    # 27.2 MB at 27.2 GB/s are 1 ms, and the latency is 1.28 us.
    seconds = link_cycles(27.2e6, MK2) / MK2.clock
    assert seconds == pytest.approx(1e-3 + 1.28e-6)


def test_latency_agrees_with_measured_stencils():
    # Cycles of exchange among 16 IPUs on GC2 with half4, 3043, and with twice the bytes, 4032.
    assert BOW.link_latency * 1.6e9 == pytest.approx(2 * 3043 - 4032, rel=0.02)


def test_a_copy_of_nothing_costs_nothing():
    assert link_cycles(0, BOW) == 0


@pytest.mark.parametrize(("pair", "links"), [((0, 1), 4), ((1, 0), 4), ((1, 2), 2), ((0, 3), 2)])
def test_pairs_have_more_links(pair, links):
    assert links_between(*pair, BOW) == links


def test_a_c2_card_has_its_published_rate():
    # 192 GB/s over both directions between its two IPUs.
    assert 2 * links_between(0, 1, MK1) * MK1.link_bandwidth == 192e9


def test_label_follows_the_figures():
    assert link_label(BOW) is Label.MODELLED
    sources = {**BOW.sources, "link_efficiency": Source("a guess", Status.UNCERTAIN)}
    assert link_label(dataclasses.replace(BOW, sources=sources)) is Label.ASSUMED


# --- Host and streaming memory ---


def test_host_cycles_by_hand():
    # Four IPUs share 100 Gbit/s: 12.5 MB take each 4 ms. From its machine it gets 5.5 MB in 1 ms.
    assert host_cycles(12.5e6, MK2) == pytest.approx(4 * 1.325e6 + sync_cycles(2, MK2))
    assert host_cycles(5.5e6, MK2, ahead=True) == pytest.approx(1.325e6 + sync_cycles(2, MK2))
    assert network_cycles(12.5e6, MK2) == pytest.approx(4 * 1.325e6)


def test_streaming_cycles_by_hand():
    # 5 MB at 5 GB/s are 1 ms, in one chunk.
    assert streaming_cycles(5e6, BOW) == pytest.approx(1.85e6 + sync_cycles(2, BOW))


@pytest.mark.parametrize(("mebibytes", "chunks"), [(1, 1), (128, 1), (129, 2), (1024, 8)])
def test_each_chunk_of_128_mebibytes_has_a_start(mebibytes, chunks):
    num_bytes = mebibytes * 1024**2
    start = streaming_cycles(num_bytes, MK2) - num_bytes / 5e9 * MK2.clock
    assert start == pytest.approx(chunks * sync_cycles(2, MK2))


@pytest.mark.parametrize("chip", CHIPS, ids=repr)
@pytest.mark.parametrize("cycles", [host_cycles, streaming_cycles], ids=["host", "streaming"])
def test_streams_cycles_rise_with_bytes(chip, cycles):
    sizes = [0, 1, 1000, 1 << 20, (1 << 27) - 1, 1 << 27, (1 << 27) + 1, 1 << 30]
    found = [cycles(size, chip) for size in sizes]
    assert found == sorted(found) and found[0] == 0


def test_labels_follow_the_figures():
    assert host_label(MK2) is Label.MODELLED
    assert streaming_label(MK2) is Label.ASSUMED  # its bandwidth is uncertain
