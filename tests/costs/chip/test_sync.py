"""Cycles of synchronisation."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import CHIPS, MK1, MK2
from tensorflow_ipu.costs.chip.sync import hops, sync_cycles


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
