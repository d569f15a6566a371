"""The temporary memory that an op may take."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.cost import Resources, UnknownCostError
from tensorflow_ipu.costs.memory_bound import bound


@pytest.mark.parametrize(
    ("proportion", "num_bytes"),
    [(0.5, 312 * 1024), (0.0, 624 * 1024 / 64), (0.001, 624 * 1024 / 64)],
)
def test_bound_is_tile_part_of_at_least_64th(proportion, num_bytes):
    assert bound(Resources(BOW, 1472, proportion)) == num_bytes


@pytest.mark.parametrize("proportion", [-0.1, float("nan")])
def test_a_negative_proportion_is_not_known(proportion):
    with pytest.raises(UnknownCostError, match="memory proportion of 0 or more"):
        bound(Resources(BOW, 1472, proportion))
