"""Tile mappings against the rules followed block by block."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.cost import TensorType
from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.memory.tile_mapping import Interval, Layout

FAST = settings(max_examples=40, derandomize=True, deadline=None)
SIZES = st.lists(st.integers(0, 3000), min_size=1, max_size=12)
TILES = st.integers(1, 9)


@pytest.mark.parametrize("chip", chips.CHIPS, ids=lambda chip: chip.name)
def test_blocks_are_those_of_the_chip(chip):
    assert chip.mapping_block == tile_mapping.BLOCK
    grain = chip.half_vector_width * 2
    assert grain == chip.float_vector_width * 4 and tile_mapping.BLOCK % grain == 0


@pytest.mark.parametrize(
    ("dtype", "shape", "tiles", "expected"),
    [
        # 32 floats are a block of 128 B.
        ("float32", (32,), 4, ((0, 32),)),
        ("float32", (40,), 4, ((0, 32), (1, 8))),
        ("float16", (64,), 4, ((0, 64),)),
        ("float16", (100,), 4, ((0, 64), (1, 36))),
        # Five blocks on two tiles: three and two, the last one with 2 elements.
        ("float32", (130,), 2, ((0, 96), (1, 34))),
        ("float32", (130,), 1, ((0, 130),)),
        ("float32", (), 4, ((0, 1),)),
        ("float32", (0,), 4, ()),
        ("resource", (), 4, ()),
    ],
)
def test_linear_mappings_by_hand(dtype, shape, tiles, expected):
    mapping = tile_mapping.linear(TensorType(dtype, shape), tiles)
    assert mapping == tuple(Interval(*pair) for pair in expected)


def test_a_large_tensor_is_even():
    mapping = tile_mapping.linear(TensorType("float16", (64 * 1472 * 3,)), 1472)
    assert mapping == tuple(Interval(tile, 192) for tile in range(1472))


@given(num_bytes=st.integers(0, 10_000), tiles=TILES)
@FAST
def test_linear_has_each_byte_once(num_bytes, tiles):
    share = tile_mapping.spread(num_bytes, tiles)
    counts = tile_mapping.share_bytes(share, tiles)
    assert counts.sum() == num_bytes
    blocks = [min(128, num_bytes - at) for at in range(0, num_bytes, 128)]
    expected, start = [], 0
    for tile in range(tiles):
        stop = start + len(blocks) // tiles + (tile < len(blocks) % tiles)
        expected.append(sum(blocks[start:stop]))
        start = stop
    assert counts.tolist() == expected
    assert counts[0] == counts.max()
    assert tile_mapping.fullest(np.array([num_bytes]), tiles)[0] == counts[0]


@given(sizes=SIZES, tiles=TILES)
@FAST
def test_always_live_is_list_scheduling(sizes, tiles):
    layout = Layout(tiles)
    numbers = [layout.add(size) for size in sizes]
    order = layout.order()
    loads = [(0, tile) for tile in range(tiles)]
    for size in sizes:
        for at in range(0, size, 128):
            load, tile = heapq.heappop(loads)
            heapq.heappush(loads, (load + min(128, size - at), tile))
    total = layout.total(numbers, order)
    assert total.tolist() == sorted((load for load, _ in loads), reverse=True)
    for number, size in zip(numbers, sizes):
        assert layout.tiles(number, order).sum() == size


@given(sizes=SIZES, tiles=TILES, drop=st.integers(0, 11), less=st.integers(0, 3000))
@FAST
def test_fullest_tile_never_rises_with_tiles(sizes, tiles, drop, less):
    def fullest(of, number):
        layout = Layout(number)
        return layout.total([layout.add(size) for size in of], layout.order())[0]

    before = fullest(sizes, tiles)
    assert fullest(sizes, tiles + 1) <= before
    place = drop % len(sizes)
    assert fullest(sizes[:place] + sizes[place + 1 :], tiles) <= before
    smaller = [*sizes[:place], min(less, sizes[place]), *sizes[place + 1 :]]
    assert fullest(smaller, tiles) <= before


def test_always_live_tensors_are_mapped_by_hand():
    # 300 B are blocks of 128, 128 and 44 B on the tiles 2, 1, 0 of a first layout by load; the 64 B
    # of the second tensor join the 44 B.
    tensors = [TensorType("float32", (75,)), TensorType("float16", (32,))]
    mappings = tile_mapping.always_live(tensors, 3)
    assert mappings == [
        (Interval(0, 32), Interval(1, 32), Interval(2, 11)),
        (Interval(2, 32),),
    ]


def test_a_share_of_a_tensor_is_mapped():
    (mapping,) = tile_mapping.always_live([TensorType("float32", (64,))], 4, [128])
    assert mapping == (Interval(0, 32),)
