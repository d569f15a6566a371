"""Partitions of a product over the tiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.chip.vertex import exchange_code
from tensorflow_ipu.costs.contractions import partition
from tensorflow_ipu.costs.contractions.contraction import Product, Splits, Window, block_of
from tensorflow_ipu.costs.cost import Cost, Resources
from tensorflow_ipu.costs.releases import Release

# --- Balanced partitions in closed form ---

UNIT = amp.unit(BOW, "float16", "float16")


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=4), st.floats(0.001, 1), st.floats(0.1, 1))
def test_the_level_fills_the_volume(sides, part, less):
    volume = math.prod(sides) * part
    level = partition.level(volume, sides)
    assert math.prod(min(side, level) for side in sides) == pytest.approx(volume)
    assert partition.level(volume * less, sides) <= level * (1 + 1e-12)


def test_cube_by_hand():
    # 8 tiles: 512 x 512 x 512 each.
    product = Product("float16", "float16", 1024, 1024, 1024)
    block = partition.sides(product, UNIT, 8)
    assert block == pytest.approx((1, 512, 512, 512))
    assert partition.operands(product, block) == pytest.approx((512 * 512 * 2,) * 3)


def test_groups_are_split_first():
    product = Product("float16", "float16", 64, 32, 16, 20)
    assert partition.sides(product, UNIT, 5) == (4, 64, 32, 16)
    assert partition.sides(product, UNIT, 40) == pytest.approx((1, 32, 32, 16))


def test_memory_by_hand():
    product = Product("float16", "float32", 1024, 1024, 1024)
    tiles = BOW.with_tiles(64)
    # 256 x 256 x 256: two operands of 128 KiB, sums of 256 KiB; units of 8 outputs.
    unit = amp.unit(tiles, "float16", "float32")
    wide = partition.with_memory(partition.Cost(), product, unit, Resources(tiles, 64, 1.0))
    assert wide.temporary == 512 * 1024
    assert wide.vertex_state == 64 + 4 * (16 + 32 + 16 * 32)
    assert wide.exchange_code == 3 * exchange_code(128 * 1024)
    narrow = partition.with_memory(partition.Cost(), product, unit, Resources(tiles, 64, 0.1))
    assert narrow.temporary == int(0.1 * 624 * 1024)


# --- Partitions of a product over the tiles ---


def split(positions=1, inputs=1, outputs=1, groups=1):
    return Splits(*(np.array([n]) for n in (positions, inputs, outputs, groups)))


def test_operand_cycles_by_hand():
    product = Product("float16", "float16", 1000, 64, 64)
    splits = split(positions=10, outputs=2)
    received = partition.operand_cycles(splits, block_of(product, UNIT, splits), BOW)
    # 100 x 64 values of the first at 8 bytes per cycle less a 20th; 64 x 32 of the second.
    first, second = 100 * 64 * 2 * 0.95 / 8, 64 * 32 * 2 * 0.9 / 4
    assert received[0] == pytest.approx(first + second)


def test_one_tile_receives_nothing():
    resources = Resources(BOW, 1, release=Release("plain"))
    cost = partition.best(Product("float16", "float16", 64, 64, 64), resources)
    assert cost.exchange == BOW.exchange_overhead
    # Four groups of inputs and outputs each; 11 positions per worker.
    zeroed, plain = 25 + 32 + 6 * (37 + 32 - 7), 25 + 32 + 6 * (38 + 32 - 7)
    vertex = 50 + 6 * (7 + 3 * 3) + 13 + 3 * (15 + 4 * plain) + 11 + 4 * zeroed
    assert cost.compute == vertex + BOW.compute_set_cycles + BOW.vertex_launch_cycles


@pytest.mark.parametrize("window", [Window(1, 3), Window(2, 3), Window(1, 7), Window(1, 1)])
def test_kernels_stay_below_peak_throughput(window):
    product = Product("float16", "float16", 10_000, 64, 64, windows=(window, window), rows=100)
    cost = partition.best(product, Resources(BOW, BOW.tiles, 0.6, "float16"))
    assert product.macs == 10_000 * 64 * 64 * window.size**2
    assert cost.compute > product.macs / 64 / BOW.tiles


def test_a_small_proportion_makes_serial_parts():
    product = Product("float16", "float16", 4096, 4096, 4096)
    few, many = (
        partition.best(product, Resources(BOW, BOW.tiles, proportion, "float16"))
        for proportion in (1.0, 0.02)
    )
    assert few.temporary > 10 * many.temporary
    assert many.temporary <= 0.02 * BOW.memory_per_tile
    assert many.sync >= 10 * few.sync
    assert many.exchange > 1.5 * few.exchange


def test_rearrangement_by_hand():
    resources = Resources(BOW, 100)
    product = Product("float16", "float16", 64, 64, 64, rearranged=10_000)
    # 200 bytes on each tile: 5/4 x 200 / 8 cycles to copy, 50 to receive, and one phase.
    phase = BOW.compute_set_cycles + BOW.exchange_overhead + BOW.sync_cycles
    assert partition.rearrangement(product, resources) == pytest.approx(31.25 + 50 + phase)
    assert partition.rearrangement(product._replace(rearranged=0), resources) == 0


def test_the_cheapest_of_several_ways_is_taken():
    first = Cost(5.0, temporary=10, codelets=("a",), vertex_state=4, exchange_code=9)
    second = Cost(3.0, temporary=20, codelets=("b", "a"), vertex_state=3, exchange_code=12)
    assert partition.cheapest([first, second]) == Cost(
        3.0, temporary=10, codelets=("a", "b"), vertex_state=3, exchange_code=9
    )


@pytest.mark.parametrize("groups", [12, 48, 192, 384])
def test_each_tile_has_one_of_several_groups(groups):
    product = Product("float16", "float16", 384, 64, 384, groups)
    cost = partition.best(product, Resources(BOW, 1472))
    assert dict(cost.partition.parts)["groups"] == groups


def test_batched_products_put_their_parts_together():
    product = Product("float16", "float16", 512, 64, 512, 512)
    resources = Resources(BOW, 1472, 0.6, "float16")
    parts = np.array([1, 2, 3])
    # 512 x 512 x 512 values of 2 bytes, at 0.44 cycles a byte there and back.
    once = 512**3 * 2 / 1472 * 0.44 * 2
    written = partition.result_cycles(product, parts, resources)
    assert written == pytest.approx([0, 2 * once, 6 * once])
    assert partition.result_cycles(product._replace(groups=1), parts, resources) == 0
