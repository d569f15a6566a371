"""Tests of products: elements and memory of their blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import BOW, MK1
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.contractions import contraction
from tensorflow_ipu.costs.contractions.contraction import (
    Product,
    Splits,
    Window,
    area,
    arithmetic,
    block_of,
    candidates,
)
from tensorflow_ipu.costs.cost import Resources
from tensorflow_ipu.costs.releases import SDK_1_0


@pytest.mark.parametrize(
    ("window", "field", "inputs"),
    [
        (Window(), 5, 5),
        (Window(1, 3), 5, 7),
        (Window(2, 3), 5, 11),
        (Window(1, 3, 2), 5, 9),
        (Window(3, 2), 5, 10),
        (Window(2, 1), 5, 5),
    ],
    ids=["1", "3", "3 stride 2", "3 dilation 2", "2 stride 3", "1 stride 2"],
)
def test_inputs_of_a_window_by_hand(window, field, inputs):
    assert window.inputs(field) == inputs


def test_area_of_windows_by_hand():
    assert area((), 7, 100) == 7
    assert area((Window(1, 3), Window(1, 3)), 16, 100) == pytest.approx(36)
    assert area((Window(1, 3), Window(1, 3)), 16, 30) == 30


def test_input_elements_by_hand():
    windows = (Window(1, 3), Window(1, 3))
    forward = Product("float16", "float16", 64, 8, 8, windows=windows, stored=100)
    assert (forward.kernel, forward.macs) == (9, 64 * 9 * 8 * 8)
    assert forward.input_elements(16, 8) == pytest.approx(36 * 8)
    # 9 kernel positions of 8 channels, added up over a field of 64.
    gradient = forward._replace(positions=72, inputs=64, gathered=8)
    assert (gradient.kernel, gradient.macs) == (1, 72 * 64 * 8)
    assert gradient.input_elements(72, 16) == pytest.approx(36 * 8)
    assert gradient.input_elements(1, 16) == 16


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", ("float32", "float32")),
        ("float16", ("float16", "float16")),
        ("bfloat16", ("float32", "float32")),
        ("float8_e5m2", ("float16", "float16")),
        ("int32", None),
        ("float64", None),
    ],
)
def test_each_type_has_its_arithmetic(dtype, expected):
    assert arithmetic(dtype, "float16", chips.MK2) == expected


@pytest.mark.parametrize("partials", ["float16", "float32"])
def test_one_chip_has_arithmetic_of_8_bit_floats(partials):
    assert arithmetic("float8_e5m2", partials, chips.BOW) == ("float8", "float16")
    assert arithmetic("float8_e5m2", partials, chips.MK2) == ("float16", partials)


# --- Blocks ---

UNIT = amp.unit(BOW, "float16", "float16")


def split(positions=1, inputs=1, outputs=1, groups=1):
    return Splits(*(np.array([n]) for n in (positions, inputs, outputs, groups)))


@pytest.mark.parametrize("tiles", [1, 2, 100, 1216, 1472])
def test_no_partition_needs_more_tiles_than_there_are(tiles):
    splits = candidates(tiles)
    used = splits.positions * splits.inputs * splits.outputs * splits.groups
    assert used.min() >= 1 and tiles / 2 < used.max() <= tiles
    assert len(used) < 1000


def test_block_by_hand():
    product = Product("float16", "float16", 1000, 100, 200, 3)
    block = block_of(product, UNIT, split(positions=7, inputs=2, outputs=3, groups=2))
    # 143 rows; 7 groups of 16 inputs in 2 parts; 13 groups of 16 outputs in 3 parts.
    assert [int(n[0]) for n in block[:4]] == [143, 4, 5, 2]
    assert [float(n[0]) for n in block[4:]] == [
        2 * 143 * 64 * 2,
        2 * 64 * 80 * 2,
        2 * 143 * 80 * 2,
    ]
    assert float(block.temporary[0]) == 2 * 2 * (143 * 64 + 64 * 80 + 143 * 80)


def test_few_channels_are_padded_only_in_the_unit():
    block = block_of(Product("float16", "float16", 100, 3, 5), UNIT, split(positions=10))
    assert (block.input_groups[0], block.output_groups[0]) == (1, 1)
    assert [float(n[0]) for n in block[4:]] == [10 * 3 * 2, 3 * 5 * 2, 10 * 5 * 2]


# --- The ways in which a tile computes its block of a product ---

WHOLE = Splits(*(np.array([1]),) * 4)
WINDOWS = (Window(1, 3), Window(1, 3))


def computed(product, unit=UNIT):
    block = block_of(product, unit, WHOLE)
    return block, float(contraction.vertex_cycles(product, unit, WHOLE, block)[0])


def test_a_product_without_kernel_takes_the_1x1_vertex():
    _, cycles = computed(Product("float16", "float16", 60, 40, 40, 2))
    assert cycles == amp.vertex_1x1(UNIT, 60, 3, 3, 2)


def test_few_sums_take_dot_products():
    _, cycles = computed(Product("float16", "float16", 1, 64, 2))
    assert cycles == amp.hmac(UNIT, 2, 64) < amp.vertex_1x1(UNIT, 1, 4)


def test_nothing_to_add_up_takes_outer_products():
    _, cycles = computed(Product("float16", "float16", 3, 1, 20))
    assert cycles == amp.outer_product(1, 3, 20) < amp.vertex_1x1(UNIT, 3, 1, 2)


def test_many_channels_take_kernel_rows_one_by_one():
    _, cycles = computed(Product("float16", "float16", 600, 64, 64, windows=WINDOWS, rows=10))
    assert cycles == amp.vertex_nx1(UNIT, 600, 2, 9, 4, 4)


def test_few_channels_share_the_unit():
    _, cycles = computed(Product("float16", "float16", 600, 4, 16, windows=WINDOWS, rows=10))
    # Three steps along the row, all rows at once; or 36 of 48 channels side by side.
    rows = amp.vertex_nx1(UNIT, 600, 2, 3, rows=4)
    side_by_side = amp.vertex_1x1(UNIT, 600, 3) + 600 * 48 * 2 * 5 / 4 / 8
    short = amp.vertex_short(UNIT, 600, 2, 3, 16)
    assert cycles == min(rows, side_by_side, short)
    assert cycles < amp.vertex_nx1(UNIT, 600, 2, 9) / 1.5


def test_float32_takes_one_kernel_row_at_a_time():
    unit = amp.unit(BOW, "float32", "float32")
    product = Product("float32", "float32", 600, 2, 16, windows=(Window(1, 4), Window(1, 1)))
    _, cycles = computed(product, unit)
    assert cycles < amp.vertex_nx1(unit, 600, 1, 4)
    assert cycles == amp.vertex_1x1(unit, 600, 1) + 600 * 8 * 4 * 5 / 4 / 8


def test_least_bytes_by_hand():
    product = Product("float16", "float32", 256, 40, 40, windows=WINDOWS, stored=10_000)
    unit = amp.unit(BOW, "float16", "float32")
    block = block_of(product, unit, WHOLE)
    # A field of 16 x 16 with its halo, 16 inputs; 8 outputs.
    expected = 18 * 18 * 16 * 2 + 9 * 16 * 8 * 2 + 256 * 8 * 4
    assert contraction.least_bytes(product, unit, block)[0] == pytest.approx(expected)


def test_one_by_one_gathers_the_window_by_hand():
    product = Product("float16", "float16", 600, 16, 16, windows=WINDOWS)
    block = block_of(product, UNIT, WHOLE)
    # The window of 6 positions, a square, with its halo: 16 channels of 2 bytes.
    window = (6**0.5 + 2) ** 2 * 16 * 2
    once = amp.vertex_nx1(UNIT, 6, 1, 9) + 587 + 0.44 * window
    assert contraction.one_by_one(product, UNIT, block)[0] == pytest.approx(100 * once)


@pytest.mark.parametrize(
    ("dtype", "inputs", "channels"),
    # float32 takes 8 at a time; in float16 four kernel rows share 16.
    [("float32", 4, 8), ("float32", 20, 8), ("float16", 3, 4), ("float16", 9, 12)],
)
def test_missing_channels_of_a_pass_occupy_memory(dtype, inputs, channels):
    unit = amp.unit(BOW, dtype, "float32")
    product = Product(dtype, "float32", 400, inputs, 8, windows=WINDOWS, stored=10_000)
    block = block_of(product, unit, WHOLE)
    least = 22 * 22 * channels * product.size + 9 * channels * unit.output_channels * product.size
    sums = 400 * unit.output_channels * 4
    assert contraction.least_bytes(product, unit, block)[0] == pytest.approx(least + sums)


def test_register_sums_are_written_in_the_result_type():
    unit = amp.unit(BOW, "float16", "float32")
    _, dots = computed(Product("float16", "float32", 1, 64, 2), unit)
    assert dots == amp.hmac(unit, 2, 64)
    _, products = computed(Product("float16", "float32", 600, 64, 64), unit)
    # 64 outputs of 600 positions, two of which are cast in a cycle.
    cast = 6 * 19 + 600 * 64 / 2 + BOW.compute_set_cycles
    assert products == amp.vertex_1x1(unit, 600, 4, 8) + cast


def rearranged(product, unit=UNIT, tiles=1, parts=1, **resources):
    block = block_of(product, unit, WHOLE)
    given = Resources(BOW, tiles, **resources)
    return float(np.max(contraction.rearrangement_cycles(product, unit, block, parts, given)))


def test_an_allocated_operand_is_not_rearranged():
    product = Product("float16", "float16", 600, 64, 64, windows=WINDOWS, rows=10)
    assert rearranged(product) == rearranged(product, release=SDK_1_0) == 0


def test_another_layout_is_rearranged_in_whole_words():
    product = Product("float16", "float16", 600, 64, 64)
    each = 587 + 0.44 * 600 * 64 * 2
    assert rearranged(product, allocated=False) == pytest.approx(each)
    # Of 100 tiles each has all of it, so once for all of them is cheaper.
    once = 700 + 1.12 * 600 * 64 * 2 / 100
    assert rearranged(product, tiles=100, parts=3, allocated=False) == pytest.approx(once)


def test_an_old_release_pads_few_channels_with_zeros():
    product = Product("float16", "float16", 600, 8, 64)
    assert rearranged(product) == 0
    # 16 channels of 2 bytes each; 8 of them are a piece of 16 bytes, and 4 a smaller one.
    assert rearranged(product, release=SDK_1_0) == pytest.approx(587 + 0.44 * 600 * 32)
    small = rearranged(product._replace(inputs=4), release=SDK_1_0)
    assert small == pytest.approx(587 + 3.125 * 600 * 32)


def test_padded_channels_share_the_unit_by_release():
    product = Product("float16", "float16", 600, 3, 64, windows=WINDOWS)
    assert contraction.padded_channels(product, UNIT, Resources(BOW, 1).release) == 4
    assert contraction.padded_channels(product, UNIT, SDK_1_0) == 16
    assert contraction.padded_channels(product._replace(inputs=17), UNIT, SDK_1_0) == 32


def test_short_convolutions_are_on_newer_chips_only():
    product = Product("float16", "float32", 600, 4, 4, windows=WINDOWS, rows=10)
    block = block_of(product, UNIT, WHOLE)
    on_bow, on_mk1 = (
        contraction.with_kernel(
            product, amp.unit(chip, "float16", "float32"), WHOLE, block, SDK_1_0
        )
        for chip in (BOW, MK1)
    )
    assert on_bow < on_mk1 / 2
