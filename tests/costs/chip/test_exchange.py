"""Cycles of exchange on an IPU."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW, CHIPS, MK1
from tensorflow_ipu.costs.chip.exchange import broadcast_cycles, exchange_cycles

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
