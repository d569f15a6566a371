"""Elementwise ops that are one map, against the formula of an expression by hand."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import Resources
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules import fused_map
from tests.support.planner.op_specs import f16, f32, i32, op

ALL = Resources(BOW, BOW.tiles)
X, H, ONE = f32(1472, 1024), f16(1472, 1024), f32()


def of(specs, inputs):
    ops = tuple((spec.type, spec.inputs, spec.outputs) for spec in specs)
    return fused_map.fused(ops, tuple(inputs), ("a", "b"), Label.MODELLED, ALL)


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
    assert fused_map.functions(spec) == names


def test_cycles_of_a_map_by_hand():
    # v += (g * g - v) * (1 - beta), as Adam has it: 86 vectors of 2 on the busiest worker.
    specs = [op("Square", X, X), op("Sub", (X, X), X), op("Mul", (X, ONE), X)]
    cost = of([*specs, op("AssignAddVariableOp", (X, X), ())], (X, X, ONE))
    vertex = BOW.elementwise_cycles + 11 + 6 * (29 + 86 * (3 + 3 + 3 + 3))
    assert cost.compute == vertex + BOW.compute_set_cycles
    assert (cost.exchange, cost.sync, cost.temporary) == (0, BOW.sync_cycles, 0)
    assert cost.vertex_state == 4 + 8 * 4
    assert cost.codelets == ("a", "b")


def test_each_op_of_a_map_has_the_vectors_of_its_type():
    cost = of([op("Mul", (H, H), H), op("Cast", H, X), op("AddV2", (X, X), X)], (H, X))
    work = 43 * 3 + 86 * 1 + 86 * 3
    assert cost.compute == BOW.elementwise_cycles + 11 + 6 * (29 + work) + BOW.compute_set_cycles


def test_the_tiles_receive_what_is_broadcast():
    bias = f32(1024)
    cost = of([op("AddV2", (X, bias), X), op("Mul", (X, X), X)], (X, bias, X))
    assert cost.temporary == 1024 * 4
    assert cost.exchange == 1024 + BOW.exchange_overhead


@pytest.mark.parametrize(("name", "inputs"), [("Adam", 10), ("Momentum", 5), ("RMSProp", 8)])
def test_an_optimizer_op_is_a_map_of_its_inputs(name, inputs):
    states = {"Adam": 3, "Momentum": 2, "RMSProp": 3}[name]
    spec = op(f"ResourceApply{name}", (X,) * states + (ONE,) * (inputs - states - 1) + (X,), ())
    cost = cost_of(spec, ALL)
    assert cost.sync == BOW.sync_cycles
    assert cost.vertex_state == 4 + 8 * inputs
