"""Tests of products: elements and memory of their blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.contractions.contraction import (
    Product,
    Splits,
    Window,
    area,
    arithmetic,
    block_of,
    candidates,
)


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
