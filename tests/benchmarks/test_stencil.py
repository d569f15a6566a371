"""The hand-written stencil: its division of images, its instructions, its rows."""

from __future__ import annotations

import pytest
from measured.predict import predict
from measured.rows import OWN, NotExpressible, Row, parameters, read
from measured.statistics import statistics
from measured.stencil import blur, grid, hand_written
from measured.stencil.blur import DATA, Program
from measured.stencil.grid import Part

from tensorflow_ipu.configs.chips import MK1

CHEESE = Part(1122, 2200)
ONE = Part(1, 1)


def row(workload, options, metric="program time", unit="s"):
    return Row(2, "s", "t", "GC2", workload, parameters(options), metric, 1.0, unit)


# The division of images.


@pytest.mark.parametrize(
    ("image", "ipus", "part", "border", "pieces"),
    [
        (CHEESE, 1, CHEESE, 0, 0),
        # 1122 rows leave 2 of 16 over, 2200 columns 8: rows are divided, whose borders are rows.
        (CHEESE, 16, Part(71, 2200), 2200, 1),
        # Neither leaves anything over: columns are divided.
        (CHEESE, 2, Part(1122, 1100), 1122, 1122),
        (Part(1000, 1000), 2, Part(1000, 500), 1000, 1000),
    ],
)
def test_images_are_divided_over_ipus(image, ipus, part, border, pieces):
    assert grid.over_ipus(image, ipus) == (part, border, pieces)


def test_an_image_that_no_division_fits_is_refused():
    assert grid.over_ipus(Part(3000, 1000), 1) is None
    with pytest.raises(NotExpressible, match="too large"):
        hand_written.predict(
            row("3x3 blur stencil", "dtype=float;ipus=1;image=3000x1000;iterations=1")
        )


@pytest.mark.parametrize(
    ("part", "least"),
    [
        (part, least)
        for part in (CHEESE, Part(71, 2200), Part(302, 32), Part(5, 900), Part(900, 5))
        for least in (ONE, Part(6, 6), Part(72, 64), Part(24, 128))
    ],
)
def test_tiles_cover_part_with_requested_size(part, least):
    tiles = grid.over_tiles(part, 1216, least)
    rows, columns = {t.rows for t in tiles}, {t.columns for t in tiles}
    assert max(rows) - min(rows) <= 1 and max(columns) - min(columns) <= 1
    if part.cells >= least.cells:
        down, across = part.rows // min(rows), part.columns // min(columns)
        assert (down + 1) * (across + 1) > part.cells // max(t.cells for t in tiles)
        assert part.cells / max(t.cells for t in tiles) <= 1216
        assert min(rows) >= min(least.rows, part.rows)
        assert min(columns) >= min(least.columns, part.columns)


@pytest.mark.parametrize(
    ("tile", "part", "workers"),
    [
        (Part(12, 12), Part(2, 12), 6),
        # 47 rows leave 5 of 6 over, 45 columns 3.
        (Part(47, 45), Part(47, 8), 6),
        (Part(3, 100), Part(3, 17), 6),
        (Part(4, 4), Part(1, 4), 4),
    ],
)
def test_workers_divide_what_leaves_less_over(tile, part, workers):
    assert grid.over_workers(tile, 6) == (part, workers)


# Instructions and phases.


@pytest.mark.parametrize(
    ("data", "earlier", "count"),
    [
        # Nine loads, eleven operations, a store for each vector; six instructions for each cell.
        ("float", False, 4 * 21 + 6),
        ("float2", False, 2 * 21 + 6),
        ("half4", False, 21 + 6),
        ("float", True, 4 * 24 + 6),
    ],
)
def test_instructions_of_a_cell_are_counted(data, earlier, count):
    assert blur.instructions(DATA[data], earlier) == count


def test_a_step_is_that_of_the_slowest_tile():
    found = blur.step(Program(CHEESE, 1, ONE, DATA["half4"]), MK1)
    # A worker has 47 x 8 cells; a tile is as slow as its six workers in turn.
    expected = 11 + 6 * 47 * 8 * 27 + MK1.compute_set_cycles
    assert found.compute == expected
    assert found.links == 0.0 and found.sync == MK1.sync_cycles
    assert found.cycles == pytest.approx(sum(found[:6]))
    # Each worker has 47 rows of its own and needs two more.
    assert found.pieces == (6 * 49, 6 * 47)


def test_borders_are_counted_for_each_worker():
    found = blur.step(Program(Part(12 * 32, 12 * 38), 1, ONE, DATA["float"]), MK1)
    # 12 x 12 cells on each of 1216 tiles: six workers of 2 x 12, above and below 12 cells, and on
    # each side 4 for each worker; a cell is 16 bytes.
    assert found.exchange == (2 * 12 + 2 * 6 * 4) * 16 / 4 + MK1.exchange_overhead


def test_earlier_program_copies_only_what_is_in_pieces():
    by_rows = blur.step(Program(CHEESE, 1, Part(72, 32), DATA["float"], earlier=True), MK1)
    assert by_rows.before == by_rows.after == 0
    by_columns = blur.step(Program(CHEESE, 1, ONE, DATA["float"], earlier=True), MK1)
    assert by_columns.before == by_columns.after > 0


# Rows.


@pytest.mark.parametrize(
    ("workload", "options", "metric", "reason"),
    [
        ("3x3 blur stencil, image leaf", "dtype=half4;ipus=1", "program time", "iterations"),
        ("3x3 blur stencil, image leaf", "ipus=1;iterations=1", "program time", "type of the"),
        ("3x3 blur stencil", "dtype=float;iterations=1", "program time", "size of the image"),
        ("3x3 blur stencil, one step", "dtype=float", "cycles in rest", "not in the list"),
    ],
)
def test_rows_that_lack_something_are_refused(workload, options, metric, reason):
    with pytest.raises(NotExpressible, match=reason):
        hand_written.predict(row(workload, options, metric))


def test_rows_with_equal_tile_parts_are_one_configuration():
    text = "grid=2200x1122;ipus=1;iterations=1000;mincolspertile=1;minrowspertile="
    one, same, other = (
        hand_written.predict(row("3x3 stencil, tile partition granularity", text + rows))
        for rows in ("1", "2", "72")
    )
    assert one.configuration == same.configuration != other.configuration
    assert one.value == same.value


@pytest.mark.parametrize(
    ("group", "median"), [(hand_written.STENCIL, 0.08), (hand_written.PHASE, 0.08)]
)
def test_predictions_agree_with_the_measurements(group, median):
    rows = [one for one in read(OWN)[0] if "lbm-graphcore" in one.source]
    found = statistics([p for p in predict(rows).predictions if p.group == group])
    assert found.rows > 20
    assert found.median <= median
    assert found.correlation > 0.9
