"""Memory and work of blocks of a product."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.contractions.contraction import Product, Window, area, arithmetic


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
