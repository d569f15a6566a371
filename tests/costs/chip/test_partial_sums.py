"""Sums of partial sums, by hand."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import partial_sums


@pytest.mark.parametrize(
    ("partials", "stages"), [(1, 0), (2, 1), (15, 1), (16, 2), (124, 2), (125, 3)]
)
def test_stages_and_cycles_by_hand(partials, stages):
    assert partial_sums.stages(partials) == stages
    cycles = stages and 1600 / 16 + stages * (33 + 6 * 30 + BOW.compute_set_cycles)
    assert partial_sums.adding_cycles(1600, partials, BOW) == cycles
