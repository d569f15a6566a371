"""Elementwise ops, against the library's table by hand and against measured additions."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW, MK2
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.chip.vertex import exchange_code, share
from tensorflow_ipu.costs.cost import Resources
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules import elementwise
from tests.support.planner.op_specs import f16, f32, i32, op

ALL = Resources(BOW, BOW.tiles)

# 1,024 elements on a tile are 171 for the busiest worker: 86 vectors of 2, or 43 of 4.
ON_TILE = 1024


@pytest.mark.parametrize(
    ("name", "dtype", "cycles"),
    [
        ("add", "float32", 11 + 6 * (29 + 86 * 3)),
        ("add", "float16", 11 + 6 * (26 + 43 * 3)),
        ("AddV2", "float16", 11 + 6 * (26 + 43 * 3)),
        ("exp", "float32", 11 + 6 * (33 + 86 * 6)),
        ("exp", "float16", 11 + 6 * (33 + 43 * 4)),
        ("tanh", "float32", 11 + 6 * (17 + 86 * 12)),
        ("sqrt", "float16", 11 + 6 * (17 + 43 * 23)),
        ("rsqrt", "float32", 11 + 6 * (17 + 86 * 8)),
        ("inverse", "float16", 11 + 6 * (17 + 43 * 15)),
        ("gelu_erf", "float32", 11 + 6 * (17 + 171 * 22)),
        ("erf", "float16", 11 + 6 * (17 + 171 * 13)),
        ("sin", "float32", 11 + 6 * (17 + 171 * 2300)),
        ("divide", "float16", 11 + 6 * (26 + 43 * 21)),
        ("maximum", "float16", 11 + 6 * (26 + 43 * 4)),
        ("power", "float32", 11 + 6 * (29 + 171 * 312)),
        ("add", "int32", 11 + 6 * (29 + 171 * 7)),
        ("divide", "int32", 11 + 6 * (29 + 171 * 277)),
        ("Relu", "float16", 9 + 6 * (20 + 3 + 42 * 1 + 2 + 4)),
        ("Sigmoid", "float32", 9 + 6 * (20 + 7 + 85 * 10 + 6 + 4)),
        ("TanhGrad", "float16", 9 + 6 * (20 + 5 + 42 * 3 + 4 + 4)),
        ("SquaredDifference", "float32", 11 + 6 * (29 + 86 * (3 + 3))),
        ("add", "float64", 11 + 6 * (29 + 171 * 3)),
    ],
)
def test_vertices_take_the_cycles_of_the_library(name, dtype, cycles):
    found = elementwise.vertex_cycles(name, ON_TILE, dtype, BOW)
    assert found == cycles + BOW.elementwise_cycles


@pytest.mark.parametrize(("elements", "measured"), [(1024, 1860 - 45), (4, 329.5 - 45)])
def test_additions_take_the_measured_cycles(elements, measured):
    # tessellate-ipu on Bow, without the 45 cycles that measuring takes.
    cycles = elementwise.tile_cycles("AddV2", elements, "float32", BOW)
    assert cycles == pytest.approx(measured, rel=0.02)


def test_functions_of_expressions_are_in_the_table():
    used = {name for names in elementwise.EXPRESSIONS.values() for name in names}
    assert used <= set(elementwise.PRIMITIVES)


@pytest.mark.parametrize(
    ("elements", "size", "tiles", "on_tile"),
    [
        (1472 * 1024, 4, 1472, 1024),  # even
        (100_000, 2, 1472, 68),  # 25,000 grains of 4 elements: 17 on a tile
        (1000, 4, 1472, 32),  # 128 bytes
        (10, 4, 1472, 10),  # all on one tile
        (0, 4, 1472, 0),
    ],
)
def test_elements_on_the_fullest_tile_by_hand(elements, size, tiles, on_tile):
    assert share(elements, size, tiles) == on_tile


@pytest.mark.parametrize(("received", "code"), [(0, 0), (1, 12), (256, 24), (10**6, 468)])
def test_exchange_code_by_hand(received, code):
    assert exchange_code(received) == code


def test_a_bias_is_sent_to_all_tiles():
    whole = f32(1472, 1024)
    alone = cost_of(op("AddV2", (whole, whole), whole), ALL)
    bias = cost_of(op("AddV2", (whole, f32(1024)), whole), ALL)
    assert alone.exchange == 0 and alone.temporary == 0
    # 4,096 bytes at 4 a cycle.
    assert bias.exchange == 1024 + BOW.exchange_overhead
    assert bias.temporary == 4096
    assert bias.compute == alone.compute


def test_one_number_is_part_of_the_vertex():
    whole = f32(1472, 1024)
    assert cost_of(op("Mul", (whole, f32()), whole), ALL).exchange == 0


def test_parts_of_a_cost():
    whole = f16(1472, 1024)
    cost = cost_of(op("AddV2", (whole, whole), whole), ALL)
    assert cost.compute == elementwise.tile_cycles("add", 1024, "float16", BOW)
    assert cost.sync == BOW.sync_cycles
    assert cost.codelets == ("AddV2_half",)
    assert cost.vertex_state == 4 + 3 * 8
    assert cost.label is Label.MODELLED


@pytest.mark.parametrize(
    ("spec", "cycles"),
    [
        # 171 elements of the busiest worker: 86 vectors of the wider type.
        (op("Cast", f32(1472, 1024), f16(1472, 1024)), 11 + 6 * (19 + 86)),
        # 4,096 bytes: 683 of the busiest worker, 86 stores of 8.
        (op("Fill", (i32(2), f32()), f32(1472, 1024)), 11 + 6 * (26 + 86)),
    ],
)
def test_cycles_of_casts_and_fills_by_hand(spec, cycles):
    assert cost_of(spec, ALL).compute == cycles + BOW.compute_set_cycles


def test_a_sum_of_many_has_one_addition_less():
    whole = f32(1472, 1024)
    three = cost_of(op("AddN", (whole,) * 3, whole), ALL).compute
    two = cost_of(op("AddN", (whole,) * 2, whole), ALL).compute
    assert three - two == 6 * 86 * 3


@pytest.mark.parametrize(
    ("op_type", "label"),
    [("Exp", Label.MODELLED), ("Relu", Label.MODELLED), ("Lgamma", Label.ASSUMED)],
)
def test_labels_follow_the_source_of_the_figures(op_type, label):
    assert cost_of(op(op_type, f32(1000), f32(1000)), ALL).label is label


def test_the_clock_does_not_change_cycles():
    whole = f32(64, 1024)
    spec = op("Exp", whole, whole)
    assert cost_of(spec, ALL).cycles == cost_of(spec, Resources(MK2, MK2.tiles)).cycles


def test_a_power_with_one_exponent_is_two_products():
    whole = f32(1472, 1024)
    cost = cost_of(op("Pow", (whole, f32()), whole), ALL)
    assert cost.label is Label.ASSUMED
    fixed = BOW.elementwise_cycles + BOW.compute_set_cycles
    assert 11 + 6 * (17 + 86 * 6) <= cost.compute - fixed <= 11 + 6 * (29 + 86 * 6)


# --- Fused groups ---

X, H, ONE = f32(1472, 1024), f16(1472, 1024), f32()


def of(specs, inputs):
    ops = tuple((spec.type, spec.inputs, spec.outputs) for spec in specs)
    return elementwise.fused(ops, tuple(inputs), ("a", "b"), Label.MODELLED, ALL)


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (op("AddV2", (X, X), X), ("add",)),
        (op("AddN", (X, X, X), X), ("add", "add")),
        (op("Pow", (X, ONE), X), ("multiply", "multiply")),
        (op("Pow", (X, X), X), ("power",)),
        (op("Cast", H, X), ("cast",)),
        (op("AssignVariableOp", (X, X), ()), ()),
        (op("AssignSubVariableOp", (X, X), ()), ("subtract",)),
        (op("Tanh", X, X), None),
        (op("Relu", X, X), None),
        (op("MatMul", (X, X), X), None),
        (op("AddV2", (i32(4), i32(4)), i32(4)), None),
    ],
    ids=lambda value: value.type if hasattr(value, "type") else "",
)
def test_functions_of_an_op_in_an_expression(spec, names):
    assert elementwise.functions(spec) == names


def test_cycles_of_a_map_by_hand():
    # v += (g * g - v) * (1 - beta), as Adam has it: 86 vectors of 2 on the busiest worker.
    specs = [op("Square", X, X), op("Sub", (X, X), X), op("Mul", (X, ONE), X)]
    cost = of([*specs, op("AssignAddVariableOp", (X, X), ())], (X, X, ONE))
    vertex = BOW.elementwise_cycles + 11 + 6 * (29 + 86 * (3 + 3 + 3 + 3))
    assert cost.compute == vertex + BOW.compute_set_cycles
    assert (cost.exchange, cost.sync, cost.temporary) == (0, BOW.sync_cycles, 0)
    assert cost.vertex_state == 4 + 8 * 4
    assert cost.codelets == ("a", "b")


def test_fused_ops_have_vectors_of_their_own_type():
    cost = of([op("Mul", (H, H), H), op("Cast", H, X), op("AddV2", (X, X), X)], (H, X))
    work = 43 * 3 + 86 * 1 + 86 * 3
    assert cost.compute == BOW.elementwise_cycles + 11 + 6 * (29 + work) + BOW.compute_set_cycles


def test_the_tiles_receive_what_is_broadcast():
    bias = f32(1024)
    cost = of([op("AddV2", (X, bias), X), op("Mul", (X, X), X)], (X, bias, X))
    assert cost.temporary == 1024 * 4
    assert cost.exchange == 1024 + BOW.exchange_overhead


@pytest.mark.parametrize(("name", "inputs"), [("Adam", 10), ("Momentum", 5), ("RMSProp", 8)])
def test_an_optimizer_op_is_elementwise_over_its_inputs(name, inputs):
    states = {"Adam": 3, "Momentum": 2, "RMSProp": 3}[name]
    spec = op(f"ResourceApply{name}", (X,) * states + (ONE,) * (inputs - states - 1) + (X,), ())
    cost = cost_of(spec, ALL)
    assert cost.sync == BOW.sync_cycles
    assert cost.vertex_state == 4 + 8 * inputs
