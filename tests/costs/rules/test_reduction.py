"""Reductions, and norms, softmax and losses made of them."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import Resources, TensorType
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules import normalization, reduction
from tests.support.planner.op_specs import f16, f32, i32, op

ALL = Resources(BOW, BOW.tiles)


@pytest.mark.parametrize(
    ("elements", "results", "dtype", "cycles"),
    [
        # 171 of the busiest worker: 43 cycles for 4 at a time, 22 for 8; one loop of results.
        (1024, 1, "float32", 33 + 6 * (32 + 43 + 10)),
        (1024, 1, "float16", 33 + 6 * (32 + 22 + 10)),
        # 22 results of the busiest worker: 6 loops of 4.
        (1024, 128, "float32", 33 + 6 * (32 + 43 + 60)),
        (1024, 1, "int32", 33 + 6 * (32 + 171 + 10)),
    ],
)
def test_reduction_vertex_cycles_by_hand(elements, results, dtype, cycles):
    assert reduction.tile_cycles(elements, results, dtype, BOW) == cycles


@pytest.mark.parametrize(
    ("partials", "messages"),
    # One stage: all; two: 2 x sqrt(100); three: 3 x cbrt(216); where a stage begins no fewer.
    [(1, 1), (10, 10), (15, 15), (16, 15), (100, 20), (124, 23), (125, 23), (1000, 30)],
)
def test_messages_of_stages_by_hand(partials, messages):
    assert reduction.received_messages(partials) == messages


@pytest.mark.parametrize(
    ("source", "result", "axes", "trailing"),
    [
        (f32(4, 5, 6), f32(4, 5), (2,), True),
        (f32(4, 5, 6), f32(4), (2, 1), True),
        (f32(4, 5, 6), f32(5, 6), (0,), False),
        (f32(4, 4), f32(4), (0,), False),
        (f32(4, 5, 6), f32(4, 5), None, True),
        (f32(4, 5, 6), f32(4, 6), None, False),
        (f32(4, 5, 6), f32(4, 5, 1), None, True),
        (f32(4, 5, 6), f32(1, 5, 6), None, False),
        (f32(4, 5, 6), f32(), None, True),
    ],
)
def test_which_dimensions_are_reduced(source, result, axes, trailing):
    assert reduction.is_trailing(source, result, axes) is trailing


def test_sum_of_rows_by_hand():
    # 1,472 rows of 1,024: one row on each tile, 2 partial results and 3 x cbrt(1472) = 35 messages.
    cost = cost_of(op("Sum", (f32(1472, 1024), i32(1)), f32(1472), axes=[1]), ALL)
    local = 33 + 6 * (32 + 43 + 10)
    final = 33 + 6 * (32 + 2 + 10)
    assert cost.compute == local + final + 2 * BOW.compute_set_cycles
    assert cost.exchange == 2 + 35 + BOW.exchange_overhead
    assert cost.sync == 2 * BOW.sync_cycles


def test_sum_of_columns_brings_partial_result_for_each():
    columns = cost_of(op("Sum", (f32(409_600, 128), i32(1)), f32(128), axes=[0]), ALL)
    assert columns.temporary == 128 * 4
    # Those and 3 x cbrt(1472) = 35 messages.
    assert columns.exchange == 128 + 35 + BOW.exchange_overhead


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_of_many_columns_move_the_data_first(dtype):
    # In place, each tile has a partial result of all 30,528 columns: 158,000 cycles.
    source = TensorType(dtype, (2048, 30_528))
    result = TensorType(dtype, (30_528,))
    cost = cost_of(op("Sum", (source, i32(1)), result, axes=[0]), ALL)
    # 22 columns of 2 bytes, whole words, or 21 of 4.
    columns, size, width = (22, 2, 8) if dtype == "float16" else (21, 4, 4)
    moved = 2048 * columns * size
    elements, loops = -(-2048 * columns // 6), -(-4 // width)
    vertex = 33 + 6 * (32 + -(-elements // width) + 10 * loops)
    assert cost.exchange == moved / 4 + BOW.exchange_overhead
    assert cost.compute == vertex + BOW.compute_set_cycles
    assert cost.temporary == moved
    assert str(cost.partition).startswith("columns 1")
    assert cost.cycles < 30_000 * (size / 2)


def test_an_argument_takes_twice_the_data():
    source = f32(1472, 1024)
    largest = cost_of(op("Max", (source, i32()), f32(1472), axes=[1]), ALL)
    where = cost_of(op("ArgMax", (source, i32()), i32(1472), axes=[1]), ALL)
    assert largest.cycles < where.cycles < 2.5 * largest.cycles


def test_a_norm_in_training_adds_two_reductions():
    x = f16(16, 56, 56, 64)
    inputs = (x, *(f32(64),) * 4)
    training = cost_of(op("FusedBatchNormV3", inputs, x, is_training=True), ALL)
    inference = cost_of(op("FusedBatchNormV3", inputs, x, is_training=False), ALL)
    channels = cost_of(op("BiasAddGrad", x, f16(64)), ALL)
    assert training.compute - inference.compute >= 2 * channels.compute
    assert inference.codelets == ("Norm_half",)


def test_cycles_of_whitening_by_hand():
    # 1,024 elements on a tile: 4 functions of 3 cycles on each of 43 vectors.
    x = f16(1472, 1024)
    cost = cost_of(op("FusedBatchNormV3", (x, *(f32(64),) * 4), x, is_training=False), ALL)
    fixed = BOW.elementwise_cycles + BOW.compute_set_cycles
    assert cost.compute - fixed == 11 + 6 * (26 + 43 * 12)


def test_softmax_is_two_reductions_and_two_passes():
    x = f32(1472, 1024)
    cost = cost_of(op("Softmax", x, x), ALL)
    largest = cost_of(op("Max", (x, i32()), f32(1472), axes=[1]), ALL)
    passes = 11 + 6 * (29 + 86 * (3 + 6)) + 11 + 6 * (29 + 86 * 10)
    fixed = 2 * (BOW.elementwise_cycles + BOW.compute_set_cycles)
    assert cost.compute == 2 * largest.compute + passes + fixed
    assert cost.label is Label.MODELLED


def test_loss_cycles_by_hand():
    assert normalization.loss_cycles(1024, BOW) == 11 + 6 * (26 + 9 * 171)
