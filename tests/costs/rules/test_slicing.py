"""Partitions of lookups and updates of rows: all partitions by hand, and their invariants."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK1
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import Resources, TensorType
from tensorflow_ipu.costs.rules import slicing
from tests.support.planner.op_specs import op

ALL = Resources(BOW, BOW.tiles)
MANY = settings(max_examples=80, deadline=None, derandomize=True)
TABLES = st.tuples(
    st.integers(1, 20_000), st.integers(1, 40_000), st.integers(1, 1500), st.sampled_from((2, 4))
)
# Too large for the tiles.
LARGE = st.tuples(
    st.integers(1, 5000), st.integers(90_000, 10**6), st.integers(500, 6000), st.just(2)
)
TILES = st.integers(1, BOW.tiles)


def ceil(a, b):
    return -(-a // b)


def table(rows, columns, size):
    return TensorType({2: "float16", 4: "float32"}[size], (rows, columns))


def by_hand(indices, rows, columns, size, split, updated):
    """Cycles in one partition, which fits: of compute, exchange and sync."""
    of_rows, of_columns, of_indices = split
    rows, each = ceil(rows, of_rows), ceil(indices, of_indices)
    columns = min(ceil(ceil(columns * size, 4), of_columns) * 4 // size, columns)
    inside = ceil(each, of_rows)
    outside, copies = each - inside, of_indices > 1

    def looked_up(found, missed):
        one = ceil(found, 6) * (19 + ceil(columns, 2) * 2) + ceil(missed, 6) * 8
        other = found * (19 + ceil(ceil(columns, 6), 2) * 2) + missed * 8
        return 6 * (30 + min(one, other))

    compute = looked_up(inside, outside) + (of_rows > 1) * looked_up(inside, 0)
    received = each * 4 + copies * rows * columns * size + of_rows * inside * columns * size
    phases = 1 + (of_rows > 1)
    if updated:
        stages = copies * (1 + (of_indices >= 16) + (of_indices >= 125))
        sums = copies * rows * columns * 4
        added = 11 + 6 * (12 + 3 * inside * ceil(columns, 6) + 5 * outside)
        added = max(added, looked_up(inside, outside))
        added += sums / 8 + sums / 16 + stages * (33 + 6 * 30 + BOW.compute_set_cycles)
        compute = max(compute, added)
        received = max(received, each * 4 + each * columns * size + sums)
        phases = max(phases, 1 + stages)
    start = BOW.compute_set_cycles + BOW.vertex_launch_cycles
    moved = math.ceil(received / 4) + phases * BOW.exchange_overhead
    return compute + phases * start + moved + phases * BOW.sync_cycles


@pytest.mark.parametrize("updated", [False, True])
@pytest.mark.parametrize("tiles", [1, 5, 16])
@pytest.mark.parametrize(
    "sizes",
    [(1, 100, 7, 4), (60, 8, 40, 2), (400, 12, 64, 2), (37, 500, 3, 4), (300, 200, 50, 4)],
)
def test_the_cheapest_of_all_partitions_is_taken(sizes, tiles, updated):
    indices, rows, columns, size = sizes
    way = slicing.update if updated else slicing.lookup
    cost = way(indices, table(rows, columns, size), Resources(BOW, tiles))
    counts = [n for n in (1, 2, 3, 4, 6, 8, 12, 16) if n <= tiles]
    all_splits = [s for s in itertools.product(counts, repeat=3) if math.prod(s) <= tiles]
    best = min(by_hand(*sizes, split, updated) for split in all_splits)
    assert cost.cycles == pytest.approx(best)
    chosen = tuple(count for _, count in cost.partition.parts)
    assert by_hand(*sizes, chosen, updated) == pytest.approx(best)


def test_many_lookups_in_a_small_table_split_indices():
    # With rows and columns alone this takes 300,000 cycles.
    taken = op(
        "GatherV2", (table(1000, 200, 2), TensorType("int32", (18_000,))), table(18_000, 200, 2)
    )
    cost = cost_of(taken, ALL)
    assert dict(cost.partition.parts)["indices"] > 16
    assert cost.cycles < 24_000
    added = op(
        "ResourceScatterAdd",
        (table(1000, 200, 2), TensorType("int32", (18_000,)), table(18_000, 200, 2)),
        (),
    )
    cost = cost_of(added, ALL)
    assert dict(cost.partition.parts)["indices"] > 16
    assert cost.partition.partials == "float32"
    assert cost.cycles < 40_000


def test_rows_that_are_replaced_do_not_split_indices():
    rows, indices = table(18_000, 200, 2), TensorType("int32", (18_000,))
    replaced = cost_of(op("ResourceScatterUpdate", (table(1000, 200, 2), indices, rows), ()), ALL)
    added = cost_of(op("ResourceScatterAdd", (table(1000, 200, 2), indices, rows), ()), ALL)
    assert dict(replaced.partition.parts)["indices"] == 1
    assert replaced.cycles > added.cycles


@MANY
@given(sizes=st.one_of(TABLES, LARGE), tiles=TILES, chip=st.sampled_from((MK1, BOW)))
def test_an_update_takes_no_less_than_the_lookup(sizes, tiles, chip):
    indices, rows, columns, size = sizes
    resources = Resources(chip, min(tiles, chip.tiles))
    lookup = slicing.lookup(indices, table(rows, columns, size), resources)
    for combines in (True, False):
        update = slicing.update(indices, table(rows, columns, size), resources, combines)
        assert update.cycles >= lookup.cycles


@MANY
@given(sizes=TABLES, tiles=TILES, more=st.integers(1, 400), updated=st.booleans())
def test_more_tiles_never_take_longer(sizes, tiles, more, updated):
    indices, rows, columns, size = sizes
    tiles = max(tiles, ceil(rows * columns * size, BOW.memory_per_tile // 2))  # or it does not fit
    way = slicing.update if updated else slicing.lookup
    few, many = (
        way(indices, table(rows, columns, size), Resources(BOW, min(count, BOW.tiles)))
        for count in (tiles, tiles + more)
    )
    assert many.cycles <= few.cycles


@MANY
@given(sizes=TABLES, axis=st.integers(0, 2), more=st.sampled_from((1, 2, 5, 1000)))
def test_more_work_never_takes_less(sizes, axis, more):
    larger = list(sizes)
    larger[axis] += more
    small, large = (
        slicing.lookup(indices, table(rows, columns, size), ALL)
        for indices, rows, columns, size in (sizes, larger)
    )
    assert large.cycles >= small.cycles


@MANY
@given(sizes=TABLES, proportion=st.sampled_from((0.1, 0.6)), updated=st.booleans())
def test_temporary_memory_is_that_of_the_partition(sizes, proportion, updated):
    indices, rows, columns, size = sizes
    way = slicing.update if updated else slicing.lookup
    cost = way(indices, table(rows, columns, size), Resources(BOW, BOW.tiles, proportion))
    split = dict(cost.partition.parts)
    each = ceil(indices, split["indices"])
    part = ceil(rows, split["rows"]) * min(
        ceil(ceil(columns * size, 4), split["columns"]) * 4 // size, columns
    )
    copied = (split["indices"] > 1) * part * (8 if updated else size)
    row = part / ceil(rows, split["rows"]) * size
    received = split["rows"] * ceil(each, split["rows"]) * (split["rows"] > 1)
    others = each * 4 + (each + received) * row
    excess = part * size / split["indices"] - rows * columns * size / BOW.tiles
    expected = copied + others / cost.partition.serial + max(excess, 0)
    assert cost.temporary == pytest.approx(expected, abs=2)
    limit = proportion * BOW.memory_per_tile
    assert copied + others / cost.partition.serial <= limit


@pytest.mark.parametrize("way", [slicing.lookup, slicing.update])
@pytest.mark.parametrize("combines", [True, False])
def test_table_too_large_for_tiles_is_spread(way, combines):
    large = table(1_000_003, 512, 2)  # 696 kB on each of 1,472 tiles
    rest = () if way is slicing.lookup else (combines,)
    cost = way(1000, large, ALL, *rest)
    assert cost.partition.tiles > 1400
    assert dict(cost.partition.parts)["indices"] == 1
    assert math.isfinite(cost.cycles)
