"""Tests of the catalogue: its op types, unknown types, and its cache."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensorflow_ipu.compiler import device_numerics
from tensorflow_ipu.compiler.analysis import op_work
from tensorflow_ipu.configs.chips import BOW, MK1, MK2
from tensorflow_ipu.costs.catalogue import RULES, cost_of
from tensorflow_ipu.costs.contractions.convolution import convolution
from tensorflow_ipu.costs.contractions.matmul import matmul
from tensorflow_ipu.costs.cost import FREE, OpSpec, Resources
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules import variable_updates
from tests.support.planner.op_specs import f16, f32, i32, lstm, op

ALL = Resources(BOW, BOW.tiles)
NATIVE = Path(__file__).parents[2] / "native"
# TensorFlow counts the arithmetic of these itself, so they are in none of our tables.
COUNTED_BY_TENSORFLOW = """
    Add AddN AddV2 ArgMax ArgMin AvgPool AvgPoolGrad BatchMatMul BatchMatMulV2 BatchMatMulV3
    BiasAdd BiasAddGrad Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D
    DepthwiseConv2dNative Dilation2D Equal Greater GreaterEqual L2Loss Less LessEqual Log MatMul
    MaxPool MaxPoolGrad Maximum Mean Minimum Mul Neg NotEqual Pow RealDiv Reciprocal Rsqrt
    RsqrtGrad Softmax Square SquaredDifference Sub Sum
    """.split()


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(op_work.FORMULAS, id="formulas"),
        pytest.param(op_work.DATA_MOVEMENT, id="data movement"),
        pytest.param(op_work.CONTROL, id="control"),
        pytest.param(device_numerics.ARITHMETIC, id="arithmetic"),
        pytest.param(device_numerics.EXACT, id="exact"),
        pytest.param(device_numerics.UPDATES, id="updates"),
        pytest.param(COUNTED_BY_TENSORFLOW, id="TensorFlow"),
    ],
)
def test_no_op_type_of_the_project_is_unknown(types):
    assert sorted(set(types) - set(RULES)) == []


def test_every_op_of_our_own_is_known():
    sources = "".join(path.read_text() for path in sorted(NATIVE.rglob("*.cc")))
    own = set(re.findall(r'REGISTER_OP\("(\w+)"\)', sources))
    assert len(own) > 20
    assert sorted(own - set(RULES)) == []


@pytest.mark.parametrize("op_type", ["MyUserOp", "Tricubic"])
def test_an_unknown_op_is_taken_for_three_operations(op_type):
    whole = f32(1472, 1024)
    cost = cost_of(op(op_type, (whole, f32()), whole), ALL)
    assert cost.label is Label.ASSUMED
    fixed = BOW.elementwise_cycles + BOW.compute_set_cycles
    assert cost.compute - fixed == 11 + 6 * (29 + 86 * (3 + 3 + 4))
    assert cost.temporary == 4096


@pytest.mark.parametrize(
    "spec",
    [
        op("Reshape", (f32(4, 4), i32(1)), f32(16)),
        op("Const", (), f32(4)),
        op("ReadVariableOp", f32(4), f32(4)),
        op("While", (f32(4),), (f32(4),)),
        op("Shape", f32(4), i32(1)),
        op("IpuCrossReplicaSum", f32(4), f32(4)),
        op("IpuInfeedDequeue", (), f32(4)),
        op("ConcatV2", (f32(0), f32(0), i32()), f32(0)),
    ],
    ids=lambda spec: spec.type,
)
def test_what_makes_no_data_is_free(spec):
    assert cost_of(spec, ALL) is FREE


@pytest.mark.parametrize(
    "spec",
    [
        op("MatMul", (f32(), f32()), f32()),
        op("Sum", (), ()),
        op("IpuCtcLoss", (f32(3), i32()), f32()),
        op("ResourceSparseApplyAdagrad", (f32(3), f32(3)), ()),
    ],
    ids=lambda spec: spec.type,
)
def test_unknown_rank_is_priced_as_unknown_op(spec):
    assert cost_of(spec, ALL).label is Label.ASSUMED


def test_a_handle_takes_no_work():
    spec = op("SomethingWithHandles", (), ())
    assert cost_of(spec, ALL).compute < 1000


def test_costs_are_remembered_by_what_they_depend_on():
    inputs, attributes = (f32(40, 30), i32(1)), {"axes": [1], "keep_dims": False}
    first = cost_of(OpSpec("Sum", inputs, (f32(40),), attributes), ALL)
    again = cost_of(OpSpec("Sum", inputs, (f32(40),), {**attributes, "Tidx": "int32"}), ALL)
    other = cost_of(OpSpec("Sum", inputs, (f32(30),), {"axes": [0]}), ALL)
    assert again is first
    assert other is not first


@pytest.mark.parametrize(
    ("equation", "left", "right", "result", "sizes"),
    [
        ("ij,jk->ik", (30, 40), (40, 50), (30, 50), (1, 30, 40, 50)),
        ("bhqd,bhkd->bhqk", (2, 3, 40, 8), (2, 3, 50, 8), (2, 3, 40, 50), (6, 40, 8, 50)),
        ("abc,cde->abde", (4, 5, 64), (64, 7, 8), (4, 5, 7, 8), (1, 20, 64, 56)),
    ],
)
def test_einsum_is_a_product(equation, left, right, result, sizes):
    spec = op("Einsum", (f16(*left), f16(*right)), f16(*result), equation=equation)
    assert cost_of(spec, ALL) == matmul(*sizes, "float16", ALL)


@pytest.mark.parametrize(
    ("equation", "shapes", "result"), [("...ij->...i", [(4, 5)], (4,)), ("", [(4, 5)], (4,))]
)
def test_einsum_that_is_not_understood_is_assumed(equation, shapes, result):
    inputs = [f32(*shape) for shape in shapes]
    cost = cost_of(op("Einsum", inputs, f32(*result), equation=equation), ALL)
    assert cost.label is Label.ASSUMED


def test_einsum_of_one_operand_moves_or_sums():
    moved = cost_of(op("Einsum", f32(64, 32), f32(32, 64), equation="ij->ji"), ALL)
    summed = cost_of(op("Einsum", f32(64, 32), f32(64), equation="ij->i"), ALL)
    assert moved.codelets == ("Rearrange_4",)
    assert summed.codelets == ("ReduceSum_float",)


@pytest.mark.parametrize("name", ["transpose_a", "adj_x"])
def test_transposed_operands_cost_as_much(name):
    spec = op("MatMul", (f16(40, 30), f16(40, 50)), f16(30, 50), **{name: True})
    assert cost_of(spec, ALL) == matmul(1, 30, 40, 50, "float16", ALL)


def test_convolutions_have_their_own_module():
    spec = op(
        "Conv2D",
        (f16(2, 16, 16, 32), f16(3, 3, 32, 64)),
        f16(2, 16, 16, 64),
        strides=[1, 1, 1, 1],
        padding="SAME",
        data_format="NHWC",
    )
    assert cost_of(spec, ALL) == convolution(spec, ALL)


def test_recurrent_layers_go_step_by_step():
    make = lstm("BlockLSTMV2")
    one, ten = cost_of(make(1, 16, 64), ALL), cost_of(make(10, 16, 64), ALL)
    assert ten.cycles == pytest.approx(10 * one.cycles)
    assert (ten.temporary, ten.vertex_state) == (one.temporary, one.vertex_state)


def test_scaled_add_cycles_by_hand():
    assert variable_updates.scaled_add_cycles(1024, "float32", BOW) == 38 + 6 * (21 + 3 * 86)
    assert variable_updates.scaled_add_cycles(1024, "float16", BOW) == 38 + 6 * (21 + 3 * 43)


def test_optimizers_take_longer_the_more_they_compute():
    weights = f32(1024, 1024)
    momentum = cost_of(op("ResourceApplyMomentum", (weights,) * 3, ()), ALL)
    adam = cost_of(op("ResourceApplyAdam", (weights,) * 4, ()), ALL)
    assert (
        adam.cycles
        > momentum.cycles
        > cost_of(op("ResourceApplyGradientDescent", (weights, f32(), weights), ()), ALL).cycles
    )


@pytest.mark.parametrize(
    ("spec", "chip", "label"),
    [
        # A network of comparisons and selections, whose cycles are not in the library's table.
        (op("TopKV2", (f32(8, 64), i32()), (f32(8, 4), i32(8, 4))), BOW, Label.ASSUMED),
        (op("ResourceApplyAddSign", (f32(64),) * 3, ()), BOW, Label.ASSUMED),
        (op("ResourceApplyMomentum", (f32(64),) * 3, ()), BOW, Label.MODELLED),
        # The library's source calls the cycles of GELU placeholders.
        (op("Gelu", f16(64), f16(64)), BOW, Label.ASSUMED),
        (op("Relu", f16(64), f16(64)), BOW, Label.MODELLED),
        # The rate at which tiles store is derived for Mk2 and assumed for the others.
        (op("DeepCopy", f32(64), f32(64)), MK2, Label.MODELLED),
        (op("DeepCopy", f32(64), f32(64)), MK1, Label.ASSUMED),
        (op("ZerosLike", f32(64), f32(64)), MK1, Label.ASSUMED),
    ],
)
def test_labels_follow_tables_and_figures(spec, chip, label):
    assert cost_of(spec, Resources(chip, chip.tiles)).label is label


@pytest.mark.parametrize(
    ("chip", "partials", "rows", "label"),
    [
        (MK2, "float16", 4096, Label.MODELLED),
        # The rate in float16 sums is not known of Mk1.
        (MK1, "float16", 4096, Label.ASSUMED),
        (MK1, "float32", 4096, Label.MODELLED),
    ],
)
def test_product_label_follows_matrix_unit_rate(chip, partials, rows, label):
    spec = op("MatMul", (f16(rows, 512), f16(512, 512)), f16(rows, 512))
    assert cost_of(spec, Resources(chip, chip.tiles, 0.6, partials)).label is label
