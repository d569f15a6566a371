"""Sorting, running sums, random numbers, alignments, factorisations: steps by hand."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.contractions import recurrent
from tensorflow_ipu.costs.cost import Resources
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules import randomness, sequences
from tests.support.planner.op_specs import f16, f32, i32, op

ALL = Resources(BOW, BOW.tiles)


@pytest.mark.parametrize(
    ("length", "kept", "steps"),
    [
        (1, None, 1),
        (2, None, 1),
        (8, None, 6),  # 3 x 4 / 2
        (9, None, 10),  # as 16
        (1024, None, 55),
        (1024, 1, 10),  # a maximum: 10 halvings of one step
        (1024, 8, 6 + 7 * 4),  # runs of 8, then 7 halvings of 4 steps
        (1024, 1024, 55),
    ],
)
def test_a_sorting_network_has_log_squared_steps(length, kept, steps):
    source = f32(4, 1024)
    step = sequences.sorting(source, ALL, length=1)
    whole = sequences.sorting(source, ALL, length=length, kept=kept)
    assert whole.cycles == pytest.approx(steps * step.cycles)
    assert whole.temporary == step.temporary


@pytest.mark.parametrize(("axis", "steps"), [(0, 2), (1, 10), (None, 10)])
def test_a_running_sum_doubles_its_reach(axis, steps):
    given = {} if axis is None else {"axes": [axis]}
    x = f32(4, 1024)
    cost = cost_of(op("Cumsum", (x, i32()), x, **given), ALL)
    assert cost.sync == steps * BOW.sync_cycles
    assert cost.label is Label.ASSUMED


@pytest.mark.parametrize(
    ("dtype", "cycles"), [("float32", 11 + 6 * (26 + 86 * 3)), ("float16", 11 + 6 * (26 + 43 * 3))]
)
def test_random_number_cycles_by_hand(dtype, cycles):
    assert randomness.tile_cycles(1024, 3, dtype, BOW) == cycles


@pytest.mark.parametrize(
    ("faster", "slower"),
    [
        ("RandomUniform", "TruncatedNormal"),
        ("StatelessRandomUniformV2", "IpuRandomShuffle"),
    ],
)
def test_what_draws_more_takes_longer(faster, slower):
    x = f32(1000, 100)
    assert cost_of(op(faster, x, x), ALL).cycles < cost_of(op(slower, x, x), ALL).cycles


def test_an_alignment_goes_step_by_step():
    short, long = (sequences.loss(steps, 16, 20, 30, ALL) for steps in (10, 100))
    # Two phases a step, and one for the gradient.
    assert (short.sync, long.sync) == (21 * BOW.sync_cycles, 201 * BOW.sync_cycles)
    assert long.label is Label.ASSUMED


def test_more_beams_take_longer():
    inputs = (f32(50, 8, 30), i32(8))
    few, many = (
        cost_of(op("IpuCtcBeamSearch", inputs, f32(8), beam_width=width), ALL) for width in (4, 64)
    )
    assert many.cycles > few.cycles


def test_gated_layer_has_fewer_weights_than_an_lstm():
    sizes = (20, 16, 256, 512, "float16", ALL)
    assert recurrent.gru(*sizes).cycles < recurrent.lstm(*sizes).cycles
    assert recurrent.gru(*sizes).cycles < recurrent.gru(*sizes, gradient=True).cycles


@pytest.mark.parametrize("op_type", ["GRUBlockCell", "LSTMBlockCell"])
def test_cells_are_one_step(op_type):
    batch, inputs, units = 16, 256, 512
    layer = {"GRUBlockCell": recurrent.gru, "LSTMBlockCell": recurrent.lstm}[op_type]
    spec = op(op_type, (f16(batch, inputs), f16(batch, units)), (f16(batch, units),))
    assert cost_of(spec, ALL) == layer(1, batch, inputs, units, "float16", ALL)


@pytest.mark.parametrize("op_type", ["Cholesky", "MatrixTriangularSolve", "Qr", "Svd"])
def test_factorizations_are_labeled_as_assumed(op_type):
    matrix = f32(64, 64)
    inputs = (matrix, f32(64, 8)) if op_type == "MatrixTriangularSolve" else matrix
    cost = cost_of(op(op_type, inputs, matrix), ALL)
    assert cost.label is Label.ASSUMED
    # At least one phase for each column.
    assert cost.sync >= 64 * BOW.sync_cycles
