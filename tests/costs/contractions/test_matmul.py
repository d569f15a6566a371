"""Matrix multiplication on a whole IPU: bounds, monotonicity, memory."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK1, MK2
from tensorflow_ipu.costs.contractions.matmul import matmul
from tensorflow_ipu.costs.cost import FREE, Resources
from tensorflow_ipu.costs.label import Label

FEW = settings(max_examples=40, deadline=None, derandomize=True)
DIMENSION = st.integers(1, 3000)
TYPES = st.sampled_from(["float16", "float32", "int32"])


def resources(chip=BOW, tiles=None, proportion=0.6, partials="float16"):
    return Resources(chip, tiles or chip.tiles, proportion, partials)


def share(cost, macs, rate, chip=BOW):
    return macs / (rate * chip.tiles * cost.cycles)


@pytest.mark.parametrize(
    ("chip", "dtype", "partials", "rate"),
    [
        (BOW, "float8", "float16", 128),
        (BOW, "float16", "float16", 64),
        (MK2, "float16", "float32", 32),
        (MK2, "float32", "float32", 16),
        (MK1, "float16", "float32", 32),
        (MK1, "float32", "float32", 8),
    ],
)
def test_large_products_reach_their_share_of_the_peak(chip, dtype, partials, rate):
    available = resources(chip, partials=partials)
    large = matmul(1, 4096, 4096, 4096, dtype, available)
    small = matmul(1, 256, 256, 256, dtype, available)
    assert 0.4 < share(large, 4096**3, rate, chip) < 0.9
    assert share(small, 256**3, rate, chip) < 0.3
    assert large.label is Label.MODELLED


@FEW
@given(
    st.lists(DIMENSION, min_size=3, max_size=3),
    st.integers(1, 40),
    st.integers(0, 3),
    st.integers(1, 700),
    TYPES,
    st.sampled_from([1, 7, 100, 1472]),
    st.sampled_from([0.0, 0.1, 0.6]),
)
def test_cycles_rise_with_every_dimension(sides, batch, grown, more, dtype, tiles, proportion):
    available = resources(tiles=tiles, proportion=proportion)
    dimensions = [batch, *sides]
    before = matmul(*dimensions, dtype, available)
    dimensions[grown] += more
    assert matmul(*dimensions, dtype, available).cycles >= before.cycles


@FEW
@given(st.integers(1, 300), DIMENSION, DIMENSION, DIMENSION, TYPES, st.integers(1, 1471))
def test_memory_never_rises_with_tiles(batch, m, k, n, dtype, tiles):
    fewer, more = (
        matmul(batch, m, k, n, dtype, resources(tiles=count)) for count in (tiles, tiles + 1)
    )
    for name in ("temporary", "vertex_state", "exchange_code"):
        assert getattr(more, name) <= getattr(fewer, name)
    assert more.codelets == fewer.codelets


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_a_smaller_proportion_saves_memory_and_costs_cycles(dtype):
    costs = [
        matmul(1, 2048, 2048, 8192, dtype, resources(proportion=proportion))
        for proportion in (1.0, 0.6, 0.3, 0.1, 0.03)
    ]
    for larger, smaller in zip(costs, costs[1:]):
        assert smaller.temporary <= larger.temporary
        assert smaller.cycles >= larger.cycles
    assert costs[-1].temporary <= 0.03 * BOW.memory_per_tile
    assert costs[-1].temporary < costs[0].temporary
    if dtype != "int32":
        assert costs[-1].sync > costs[0].sync


def test_float16_partials_halve_the_cycles():
    wide = matmul(1, 2048, 2048, 2048, "float16", resources(partials="float32"))
    narrow = matmul(1, 2048, 2048, 2048, "float16", resources())
    assert 1.5 < wide.compute / narrow.compute < 2.5
    assert "cast_float32_float16" in wide.codelets
    assert narrow.codelets == ("amp_1x1_float16_float16", "reduce_add_float16")
    # Sums of float32 products are float32, whatever was asked for.
    assert matmul(1, 64, 64, 64, "float32", resources()) == matmul(
        1, 64, 64, 64, "float32", resources(partials="float32")
    )


def test_either_side_may_stream():
    assert matmul(3, 1, 512, 900, "float16", resources()) == matmul(
        3, 900, 512, 1, "float16", resources()
    )


@pytest.mark.parametrize(("dtype", "same"), [("bfloat16", "float32"), ("float8_e4m3fn", "float16")])
def test_types_that_are_computed_in_others(dtype, same):
    cost, other = (matmul(1, 64, 64, 64, name, resources(MK2)) for name in (dtype, same))
    assert cost == other


def test_integers_take_vector_arithmetic():
    integers = matmul(1, 512, 512, 512, "int32", resources())
    assert integers.codelets == ("multiply_int32",)
    assert integers.cycles > 10 * matmul(1, 512, 512, 512, "float32", resources()).cycles


@pytest.mark.parametrize("shape", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)])
def test_an_empty_product_is_free(shape):
    assert matmul(*shape, "float16", resources()) == FREE


@pytest.mark.parametrize(
    ("shape", "changes", "message"),
    [
        ((1, -2, 1, 1), {}, "no negative dimension"),
        ((1, 2, 3, 4), {"partials": "half"}, "'float16' or 'float32'; received 'half'"),
        ((1, 2, 3, 4), {"memory_proportion": -0.1}, "0 or more, such as 0.6; received -0.1"),
        ((1, 2, 3, 4), {"tiles": 0}, "1 or more tiles that compute; received 0"),
    ],
)
def test_malformed_products_are_refused(shape, changes, message):
    with pytest.raises(ValueError, match=message):
        matmul(*shape, "float16", dataclasses.replace(resources(), **changes))
