"""Invariants of the cost of every op: more work takes no less, more tiles need no more memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import Resources
from tests.support.planner.op_specs import FAMILIES

FEW = settings(max_examples=12, deadline=None, derandomize=True)
# Small and large ones, around the sizes at which tiles and vectors fill up.
DIMENSIONS = st.tuples(*[st.sampled_from((1, 2, 3, 7, 15, 16, 17, 31, 64, 100, 257))] * 3)
# Their memory is that of the partition that is fastest: see test_slicing.
BY_PARTITION = (
    "gather gather-points scatter scatter-copy segments stitch shuffle sparse-adagrad".split()
)
families = pytest.mark.parametrize("family", FAMILIES)


@families
@FEW
@given(
    sizes=DIMENSIONS,
    axis=st.integers(0, 2),
    more=st.sampled_from((1, 2, 5, 30)),
    allocated=st.booleans(),
)
def test_cycles_never_fall_when_a_dimension_grows(family, sizes, axis, more, allocated):
    larger = list(sizes)
    larger[axis] += more
    resources = Resources(BOW, BOW.tiles, allocated=allocated)
    small = cost_of(FAMILIES[family](*sizes), resources)
    large = cost_of(FAMILIES[family](*larger), resources)
    assert large.cycles >= small.cycles > 0


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(BY_PARTITION)))
@FEW
@given(sizes=DIMENSIONS, tiles=st.integers(1, BOW.tiles - 1), more=st.integers(1, 400))
def test_more_tiles_never_need_more_memory_each(family, sizes, tiles, more):
    spec = FAMILIES[family](*sizes)
    few = cost_of(spec, Resources(BOW, tiles))
    many = cost_of(spec, Resources(BOW, min(tiles + more, BOW.tiles)))
    assert many.temporary <= few.temporary
    assert many.vertex_state <= few.vertex_state
    assert many.exchange_code <= few.exchange_code


@families
@FEW
@given(sizes=DIMENSIONS)
def test_every_part_of_cost_is_number_of_something(family, sizes):
    cost = cost_of(FAMILIES[family](*sizes), Resources(BOW, 100))
    assert min(cost.compute, cost.exchange, cost.sync) >= 0
    assert isinstance(cost.temporary, int) and cost.temporary >= 0
    assert cost.codelets and cost.vertex_state > 0
