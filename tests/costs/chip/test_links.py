"""Cycles of copies between IPUs."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs.chips import BOW, MK1, MK2, Source, Status
from tensorflow_ipu.costs.chip.links import link_cycles, link_label, link_rate, links_between
from tensorflow_ipu.costs.label import Label


@pytest.mark.parametrize(("links", "bandwidth"), [(1, 13.6e9), (2, 27.2e9), (10, 136e9)])
def test_rate_of_128_gbit_per_link_at_85_percent(links, bandwidth):
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
