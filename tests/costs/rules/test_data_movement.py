"""Rearrangements and pooling, against the library's formulas by hand."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import FREE, Resources
from tensorflow_ipu.costs.rules import data_movement, pooling
from tests.support.planner.op_specs import f16, i32, op

ALL = Resources(BOW, BOW.tiles)
MIB = 1 << 20  # 720 bytes on the fullest of 1,472 tiles


@pytest.mark.parametrize(
    ("atom", "per_byte"), [(64, 0.44), (8, 0.44), (4, 3.125), (6, 3.125), (2, 5.148), (1, 10.296)]
)
def test_rearrangement_costs_by_size_of_the_atom(atom, per_byte):
    cost = data_movement.rearrangement(MIB, atom, ALL)
    total = cost.compute + cost.exchange - BOW.compute_set_cycles
    assert total == pytest.approx(587 + per_byte * 720)
    assert cost.exchange == 180 + BOW.exchange_overhead


def test_a_shape_is_copied_to_one_tile():
    cost = cost_of(op("Pack", (i32(), i32()), i32(2)), ALL)
    assert cost.cycles < 587
    assert data_movement.rearrangement(0, 8, ALL) is FREE


@pytest.mark.parametrize(
    ("axes", "shape", "per_byte"),
    [
        ([0, 2, 1, 3], (8, 16, 128, 64), 0.44),
        ([0, 2, 3, 1], (8, 16, 64, 128), 5.148),
        (None, (8, 16, 128, 64), 0.44),
        (None, (8, 64, 128, 16), 5.148),
    ],
)
def test_a_transpose_moves_words_or_elements(axes, shape, per_byte):
    given = {} if axes is None else {"axes": axes}
    cost = cost_of(op("Transpose", (f16(8, 128, 16, 64), i32(4)), f16(*shape), **given), ALL)
    on_tile = 1432  # 2 MiB: 262,144 words on 1,472 tiles, 179 on the fullest
    moved = cost.compute + cost.exchange - BOW.compute_set_cycles
    assert moved == pytest.approx(587 + per_byte * on_tile)
    assert cost.temporary == (0 if per_byte == 0.44 else on_tile)


def test_local_copies_take_eight_bytes_a_cycle():
    assert data_movement.local_copy(MIB, ALL).compute == 720 / 8 + BOW.compute_set_cycles


@pytest.mark.parametrize(
    ("per_vector", "cycles"), [(3, 11 + 6 * (43 * 9 * 3 + 30)), (5, 11 + 6 * (43 * 9 * 5 + 30))]
)
def test_pooling_vertex_cycles_by_hand(per_vector, cycles):
    assert pooling.tile_cycles(1024, 6, 9, per_vector, "float16", BOW) == cycles


def test_gradient_of_maximum_pooling_reads_the_image_twice():
    whole, pooled = f16(16, 112, 112, 64), f16(16, 56, 56, 64)
    forward = cost_of(op("MaxPool", whole, pooled, ksize=[1, 3, 3, 1]), ALL)
    inputs = (whole, pooled, pooled)
    backward = cost_of(op("MaxPoolGrad", inputs, whole, ksize=[1, 3, 3, 1]), ALL)
    assert backward.temporary == 2 * forward.temporary
    assert backward.cycles > forward.cycles
