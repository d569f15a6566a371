"""Tests of releases of the SDK: costs that they change, and costs that stay."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW, MK1, MK2
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.cost import OpSpec, Resources, TensorType
from tensorflow_ipu.costs.releases import CURRENT, SDK_1_0, SDK_2_1, Release
from tensorflow_ipu.costs.rules.reduction import reduction


def product(size, resources):
    matrix = TensorType("float16", (size, size))
    return cost_of(OpSpec("MatMul", (matrix, matrix), (matrix,), {}), resources)


def convolution(groups, channels, resources):
    image = TensorType("float16", (4, 28, 28, channels))
    filters = TensorType("float16", (3, 3, channels // groups, channels))
    given = {"strides": [1, 1, 1, 1], "data_format": "NHWC"}
    return cost_of(OpSpec("Conv2D", (image, filters), (image,), given), resources)


def test_programs_are_of_the_current_release():
    assert Resources(BOW, BOW.tiles).release is CURRENT
    assert CURRENT.slowdown < SDK_1_0.slowdown


def test_release_scales_a_product_and_adds_its_launch():
    plain = product(1024, Resources(MK1, MK1.tiles, release=Release("plain")))
    release = Release("slower", slowdown=1.5, launch_cycles=300)
    slower = product(1024, Resources(MK1, MK1.tiles, release=release))
    assert slower.cycles == pytest.approx(1.5 * plain.cycles + 300)
    assert slower.temporary == plain.temporary


@pytest.mark.parametrize(("groups", "channels"), [(1, 3), (32, 128), (32, 256)])
def test_few_channels_cost_more_in_an_old_release(groups, channels):
    unfilled = Release("unfilled", fills_unit=False, smallest_piece=16)
    old, new = (
        convolution(groups, channels, Resources(MK1, MK1.tiles, release=release))
        for release in (unfilled, Release("plain"))
    )
    assert old.cycles > 1.2 * new.cycles


@pytest.mark.parametrize(
    ("each", "tiles", "microseconds"),
    [(1216, 1, 1.69), (2432, 1, 2.44), (1, 1216, 1.97), (16, 1216, 2.1)],
)
def test_reductions_agree_with_measurements_of_sdk_1_0(each, tiles, microseconds):
    operand = TensorType("float32", (each * tiles,))
    cost = reduction("Sum", operand, 1, True, Resources(MK1, tiles, release=SDK_1_0))
    assert cost.cycles / MK1.clock * 1e6 == pytest.approx(microseconds, rel=0.25)


def test_collectives_of_an_old_release_take_longer():
    assert CURRENT.with_links(MK2) is MK2
    old = SDK_2_1.with_links(MK2)
    large, small = (
        [collectives.all_reduce(size, 16, 1, chip).cycles for chip in (old, MK2)]
        for size in (10**9, 64)
    )
    # Bytes take longer, the latency of a step does not.
    assert large[0] == pytest.approx(SDK_2_1.collective_slowdown * large[1], rel=0.01)
    assert small[0] == pytest.approx(small[1], rel=0.01)
