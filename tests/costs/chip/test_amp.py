"""Tile cycles of the matrix unit, against poplibs' table and measurements on Bow."""

from __future__ import annotations

import numpy as np
import pytest

from tensorflow_ipu.configs.chips import BOW, CHIPS, MK1, MK2
from tensorflow_ipu.costs.chip import amp

HALF = amp.unit(BOW, "float16", "float16")

MIXED = amp.unit(BOW, "float16", "float32")

FLOAT = amp.unit(BOW, "float32", "float32")

# Tile cycles of [N,16] x [16,16] in float16 on Bow, from the rates that the notebook "IPU Peak
# Flops" of graphcore-research/tessellate-ipu printed: N, TFLOP/s of 1472 tiles at 1.85 GHz.
MEASURED = [
    (16, 55.49367),
    (32, 96.71),
    (64, 152.80),
    (96, 186.94236),
    (112, 201.23606),
    (128, 211.11876),
    (160, 230.45924),
    (192, 243.36496),
    (208, 250.00854),
    (240, 258.99908),
    (256, 264.01),
    (304, 274.52114),
    (384, 286.61826),
    (432, 292.39236),
    (512, 299.78),
    (1024, 322.73),
    (2048, 334.94),
]


@pytest.mark.parametrize(("positions", "rate"), MEASURED)
def test_cycles_agree_with_measurements_on_bow(positions, rate):
    measured = 2 * positions * 16 * 16 * 1472 * 1.85e9 / (rate * 1e12)
    cycles = amp.vertex_1x1(HALF, positions) + BOW.compute_set_cycles
    assert cycles == pytest.approx(measured, rel=0.03)


def test_8_bit_floats_have_twice_channels_of_float16():
    unit = amp.unit(BOW, "float8", "float16")
    assert (unit.input_channels, unit.output_channels) == (32, 16)
    assert unit.position_cycles == HALF.position_cycles == 4
    # 32 x 16 bytes at 16 a cycle: as long as 16 x 16 of 2 bytes.
    assert unit.weight_load == HALF.weight_load == 32
    with pytest.raises(ValueError, match="float16 and float32 inputs; received 'float8'"):
        amp.unit(MK2, "float8", "float16")


@pytest.mark.parametrize(
    ("unit", "zeroing", "expected"),
    [
        (HALF, False, {0: 22, 1: 33, 2: 42, 3: 38, 4: 42, 13: 78}),
        (HALF, True, {0: 21, 1: 32, 2: 41, 3: 37, 4: 41, 13: 77}),
        (MIXED, False, {0: 22, 1: 33, 2: 42, 3: 38, 4: 42, 13: 78}),
        (FLOAT, False, {0: 24, 1: 47, 2: 46, 3: 46, 4: 54, 13: 126}),
        # 2 + 8 n besides, for 16 channels of 4 bytes.
        (FLOAT, True, {0: 24, 1: 57, 2: 64, 3: 72, 4: 88, 13: 232}),
    ],
    ids=["half", "half zeroing", "mixed", "float", "float zeroing"],
)
def test_worker_1x1_takes_the_published_cycles(unit, zeroing, expected):
    table = amp._table_1x1(unit, zeroing)
    cycles = {n: amp._worker_1x1(unit, np.asarray(n), zeroing, table) for n in expected}
    assert cycles == expected


@pytest.mark.parametrize("chip", CHIPS, ids=repr)
@pytest.mark.parametrize(
    "types", [("float16", "float16"), ("float16", "float32"), ("float32",) * 2]
)
def test_loading_weights_is_small_part_of_any_vertex(chip, types):
    """Their rate is uncertain on most chips, so labels of products do not depend on it."""
    unit = amp.unit(chip, *types)
    assert unit.weight_load <= 32
    for vertex in (amp.vertex_1x1, amp.vertex_nx1):
        assert vertex(unit, 1) - unit.weight_load >= 180


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        # 17 + 3 + f(n) - 9, one more with float16 sums.
        (HALF, {0: 29, 1: 41, 2: 45, 3: 46, 4: 50, 13: 86}),
        (MIXED, {0: 28, 1: 40, 2: 44, 3: 45, 4: 49, 13: 85}),
        (FLOAT, {0: 28, 1: 44, 2: 55, 3: 56, 4: 64, 13: 136}),
    ],
    ids=["half", "mixed", "float"],
)
def test_worker_nx1_takes_the_published_cycles(unit, expected):
    assert {n: amp.worker_nx1(unit, n) for n in expected} == expected


@pytest.mark.parametrize(
    ("unit", "rate"), [(HALF, 64), (MIXED, 32), (FLOAT, 16)], ids=["half", "mixed", "float"]
)
@pytest.mark.parametrize("vertex", [amp.vertex_1x1, amp.vertex_nx1])
def test_long_streams_reach_the_peak_rate(unit, rate, vertex):
    few, many = (float(vertex(unit, 12_000, input_groups=groups)) / 12_000 for groups in (10, 1000))
    macs = unit.input_channels * unit.output_channels
    assert macs * 990 / (many - few) == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize(
    ("chip", "dtype", "partials", "macs"),
    [
        (MK1, "float16", "float16", 32),
        (MK1, "float16", "float32", 32),
        (MK1, "float32", "float32", 8),
        (MK2, "float16", "float16", 64),
        (MK2, "float16", "float32", 32),
        (MK2, "float32", "float16", 16),
    ],
)
def test_unit_has_the_published_multiply_adds_per_cycle(chip, dtype, partials, macs):
    unit = amp.unit(chip, dtype, partials)
    assert unit.input_channels * unit.output_channels / unit.position_cycles == macs


def test_core_cycles_are_the_published_ones():
    assert [unit.position_cycles for unit in (HALF, MIXED, FLOAT)] == [4, 4, 8]
    assert HALF.weight_load == 32


def test_vertex_1x1_by_hand():
    # 6 positions per worker: 37 + 12 - 7 = 42 with zeroing, 43 without.
    one = 50 + 6 * 7 + 13 + 11 + (18 + 7 + 32 + 6 * 42)
    assert amp.vertex_1x1(HALF, 32) == one == 425
    zeroed, plain = 18 + 7 + 32 + 6 * 42, 19 + 6 + 32 + 6 * 43
    several = 50 + 6 * (7 + 3 * 5) + 2 * (13 + 2 * (15 + 4 * plain) + 11 + 4 * zeroed)
    assert amp.vertex_1x1(HALF, 32, 3, 4, 2) == several


def test_vertex_nx1_by_hand():
    # 6 positions per worker: 17 + 1 + 3 + 34 + 12 - 9 = 58. Zeroing: 3 x 36 x 16 x 2 bytes / 8.
    step = 32 + 15 + 3 + 6 * 58
    expected = 109 + 432 + 16 + 2 * (14 + 3 * (14 + 9 * step))
    assert amp.vertex_nx1(HALF, 36, 1, 9, 2, 3) == expected == 22161


def test_more_kernel_rows_at_once_need_fewer_steps():
    one, four = (amp.vertex_nx1(HALF, 600, 4, steps, rows=rows) for steps, rows in ((4, 1), (1, 4)))
    assert four < one / 2


@pytest.mark.parametrize("unit", [HALF, MIXED, FLOAT], ids=["half", "mixed", "float"])
@pytest.mark.parametrize("vertex", [amp.vertex_1x1, amp.vertex_nx1])
def test_more_positions_never_take_less(unit, vertex):
    assert (np.diff(vertex(unit, np.arange(1, 200))) >= 0).all()


@pytest.mark.parametrize(
    ("dtype", "partials", "message"),
    [
        ("int32", "float32", "inputs; received 'int32'"),
        ("float16", "int8", "sums; received 'int8'"),
    ],
)
def test_types_that_the_unit_lacks_are_refused(dtype, partials, message):
    with pytest.raises(ValueError, match=message):
        amp.unit(BOW, dtype, partials)


def test_three_kernel_rows_at_once_are_refused():
    with pytest.raises(ValueError, match="1, 2 or 4 kernel rows at once; received 3"):
        amp.vertex_nx1(HALF, 10, rows=3)


# Cycles of 3 x 3 vertices with the field, channels and outputs of a row, on Mk2, by the profile
# that comes with platformxlab/elk: positions, rows, steps, outputs.
SHORT = [
    (1600, 40, 1, 4, 4520),
    (3600, 60, 1, 4, 9152),
    (2304, 48, 1, 8, 18693),
    (2304, 48, 3, 4, 18644),
    (3600, 60, 3, 4, 27320),
    (3600, 60, 3, 8, 59373),
]


@pytest.mark.parametrize(("positions", "rows", "steps", "outputs", "measured"), SHORT)
def test_short_convolutions_agree_with_measurements_on_mk2(
    positions, rows, steps, outputs, measured
):
    unit = amp.unit(MK2, "float16", "float32")
    cycles = amp.vertex_short(unit, positions, -(-rows // 6), steps, outputs)
    assert cycles == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("partials", ["float16", "float32"])
def test_short_convolutions_never_take_less_for_more(partials):
    unit = amp.unit(MK2, "float16", partials)
    for steps in (1, 3):
        outputs = amp.vertex_short(unit, 600, 2, steps, np.arange(4, 68, 4))
        assert (np.diff(outputs) > 0).all()
        positions = amp.vertex_short(unit, np.arange(1, 600), 1, steps, 12)
        assert (np.diff(positions) >= 0).all()


# --- Vector arithmetic ---


@pytest.mark.parametrize("chip", CHIPS, ids=repr)
def test_vector_arithmetic_by_hand(chip):
    # 2 outputs per worker, 100 products in vectors of 4 or 2.
    assert amp.hmac(amp.unit(chip, "float16", "float16"), 12, 100) == 11 + 6 * 2 * (8 + 25)
    assert amp.hmac(amp.unit(chip, "float32", "float32"), 12, 100) == 11 + 6 * 2 * (8 + 50)
    assert amp.vmac(chip, 13, 9) == 11 + 6 * 3 * (8 + 9)
    assert amp.outer_product(2, 10, 16) == 25 + 2 * (11 + 10 * (6 + 5))
    assert amp.vector_macs(chip, 60) == 11 + 6 * 10 * 14
