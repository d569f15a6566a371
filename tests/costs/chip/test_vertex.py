"""Sums of partial sums, by hand."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import vertex


@pytest.mark.parametrize(
    ("partials", "stages"), [(1, 0), (2, 1), (15, 1), (16, 2), (124, 2), (125, 3)]
)
def test_stages_and_cycles_by_hand(partials, stages):
    assert vertex.stages(partials) == stages
    cycles = stages and 1600 / 16 + stages * (33 + 6 * 30 + BOW.compute_set_cycles)
    assert vertex.adding_cycles(1600, partials, BOW) == cycles


# --- Vertices of slices, lookups and updates of rows, against the library's formulas by hand ---


@pytest.mark.parametrize(
    ("elements", "size", "count", "cycles"),
    [
        (1024, 4, 1, 25 + 6 * (39 + 24 + 2 * 86)),
        (1024, 2, 10, 25 + 6 * (39 + (24 + 2 * 43) * 10)),
    ],
)
def test_dynamic_slice_cycles_by_hand(elements, size, count, cycles):
    assert vertex.slice_cycles(elements, size, count, BOW) == cycles


@pytest.mark.parametrize(
    ("size", "row"),
    # 12 columns in vectors of 2 elements of 4 or 2 bytes, 4 of 1 byte, 1 of 8.
    [(4, 19 + 12), (2, 19 + 12), (1, 19 + 9), (8, 19 + 24)],
)
def test_the_workers_share_many_indices(size, row):
    # Of 10 rows that it has and 90 others, a worker has 2 and 15.
    assert vertex.lookup_cycles(10, 90, 12, size, BOW) == 6 * (30 + 2 * row + 15 * 8)


@pytest.mark.parametrize(("size", "vectors"), [(4, 50), (8, 100)])
def test_workers_share_the_elements_of_a_single_row(size, vectors):
    assert vertex.lookup_cycles(1, 0, 600, size, BOW) == 6 * (30 + 19 + 2 * vectors)


def test_multi_update_cycles_by_hand():
    # Each worker adds 2 of 12 elements of 10 rows, and looks at 90 other indices.
    assert vertex.update_cycles(10, 90, 12, 2, BOW) == 11 + 6 * (12 + 3 * 10 * 2 + 5 * 90)


def test_short_update_takes_as_long_as_the_lookup():
    lookup = vertex.lookup_cycles(1, 0, 1, 4, BOW)
    assert vertex.update_cycles(1, 0, 1, 4, BOW) == lookup > 11 + 6 * (12 + 3)
