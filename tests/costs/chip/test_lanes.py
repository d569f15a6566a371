"""Tile cycles of vector arithmetic, by hand."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import CHIPS
from tensorflow_ipu.costs.chip import amp, lanes


@pytest.mark.parametrize("chip", CHIPS, ids=repr)
def test_vector_arithmetic_by_hand(chip):
    # 2 outputs per worker, 100 products in vectors of 4 or 2.
    assert lanes.hmac(amp.unit(chip, "float16", "float16"), 12, 100) == 11 + 6 * 2 * (8 + 25)
    assert lanes.hmac(amp.unit(chip, "float32", "float32"), 12, 100) == 11 + 6 * 2 * (8 + 50)
    assert lanes.vmac(chip, 13, 9) == 11 + 6 * 3 * (8 + 9)
    assert lanes.outer_product(2, 10, 16) == 25 + 2 * (11 + 10 * (6 + 5))
    assert lanes.vector_macs(chip, 60) == 11 + 6 * 10 * 14
