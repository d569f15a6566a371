"""Products in vector arithmetic."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.contractions import vector_unit
from tensorflow_ipu.costs.contractions.conv_geometry import Geometry
from tensorflow_ipu.costs.cost import Resources

RESOURCES = Resources(BOW, BOW.tiles, 0.6, "float16")


def test_integers_by_hand():
    # 64 sums of 100 products on each tile; 1067 per worker at 14 cycles.
    cost = vector_unit.multiply(64 * 1472, 100, "int32", RESOURCES)
    assert cost.compute == 11 + 6 * 1067 * 14 + BOW.compute_set_cycles
    assert cost.exchange == 2 * 8 * 100 * 4 / 4 + BOW.exchange_overhead


def geometry(kind, channels=368, side=40):
    square = (side, side)
    return Geometry(kind, "float16", 1, square, square, (3, 3), (1, 1), (1, 1), channels, 1, 1)


@pytest.mark.parametrize("kind", ["forward", "input"])
def test_depthwise_by_hand(kind):
    cost = vector_unit.depthwise(geometry(kind), ("float16", "float16"), RESOURCES)
    # 92 vectors over 92 parts of the tiles; 100 positions for each of 16 tiles, 17 per worker.
    assert cost.compute == 11 + 6 * 17 * (8 + 9) + BOW.compute_set_cycles + 11
    # A square of 10 x 10 with a halo of 1 all around, 4 channels of 2 bytes.
    assert cost.exchange == pytest.approx(144 * 8 / 4 + BOW.exchange_overhead)
    assert cost.temporary == 144 * 8


def test_depthwise_filter_adds_up_over_tiles():
    cost = vector_unit.depthwise(geometry("filter"), ("float16", "float16"), RESOURCES)
    other = vector_unit.depthwise(geometry("forward"), ("float16", "float16"), RESOURCES)
    assert cost.exchange > 2 * other.exchange - BOW.exchange_overhead
    assert cost.sync == 2 * other.sync
