"""Cycles of host and streaming memory transfers."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW, CHIPS, MK2
from tensorflow_ipu.costs.chip.exchange import sync_cycles
from tensorflow_ipu.costs.chip.streams import (
    host_cycles,
    host_label,
    network_cycles,
    streaming_cycles,
    streaming_label,
)
from tensorflow_ipu.costs.label import Label


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
def test_cycles_rise_with_bytes(chip, cycles):
    sizes = [0, 1, 1000, 1 << 20, (1 << 27) - 1, 1 << 27, (1 << 27) + 1, 1 << 30]
    found = [cycles(size, chip) for size in sizes]
    assert found == sorted(found) and found[0] == 0


def test_labels_follow_the_figures():
    assert host_label(MK2) is Label.MODELLED
    assert streaming_label(MK2) is Label.ASSUMED  # its bandwidth is uncertain
