"""Blocks of a product on the fullest tile."""

from __future__ import annotations

import numpy as np
import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.contractions.contraction import Product
from tensorflow_ipu.costs.contractions.partition_block import Splits, block_of, candidates

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


def test_few_channels_are_padded_in_the_unit_but_not_in_memory():
    block = block_of(Product("float16", "float16", 100, 3, 5), UNIT, split(positions=10))
    assert (block.input_groups[0], block.output_groups[0]) == (1, 1)
    assert [float(n[0]) for n in block[4:]] == [10 * 3 * 2, 3 * 5 * 2, 10 * 5 * 2]
