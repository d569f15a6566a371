"""Balanced partitions in closed form."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.chip.vertex import exchange_code
from tensorflow_ipu.costs.contractions import partition_memory
from tensorflow_ipu.costs.contractions.contraction import Product
from tensorflow_ipu.costs.cost import Resources

UNIT = amp.unit(BOW, "float16", "float16")


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=4), st.floats(0.001, 1), st.floats(0.1, 1))
def test_the_level_fills_the_volume(sides, part, less):
    volume = math.prod(sides) * part
    level = partition_memory.level(volume, sides)
    assert math.prod(min(side, level) for side in sides) == pytest.approx(volume)
    assert partition_memory.level(volume * less, sides) <= level * (1 + 1e-12)


def test_cube_by_hand():
    # 8 tiles: 512 x 512 x 512 each.
    product = Product("float16", "float16", 1024, 1024, 1024)
    block = partition_memory.sides(product, UNIT, 8)
    assert block == pytest.approx((1, 512, 512, 512))
    assert partition_memory.operands(product, block) == pytest.approx((512 * 512 * 2,) * 3)


def test_groups_are_split_first():
    product = Product("float16", "float16", 64, 32, 16, 20)
    assert partition_memory.sides(product, UNIT, 5) == (4, 64, 32, 16)
    assert partition_memory.sides(product, UNIT, 40) == pytest.approx((1, 32, 32, 16))


def test_memory_by_hand():
    product = Product("float16", "float32", 1024, 1024, 1024)
    tiles = BOW.with_tiles(64)
    # 256 x 256 x 256: two operands of 128 KiB, sums of 256 KiB; units of 8 outputs.
    unit = amp.unit(tiles, "float16", "float32")
    wide = partition_memory.with_memory(
        partition_memory.Cost(), product, unit, Resources(tiles, 64, 1.0)
    )
    assert wide.temporary == 512 * 1024
    assert wide.vertex_state == 64 + 4 * (16 + 32 + 16 * 32)
    assert wide.exchange_code == 3 * exchange_code(128 * 1024)
    narrow = partition_memory.with_memory(
        partition_memory.Cost(), product, unit, Resources(tiles, 64, 0.1)
    )
    assert narrow.temporary == int(0.1 * 624 * 1024)
