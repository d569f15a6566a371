"""Costs of users' Poplar programs: sums of Poplar's description and of library ops."""

from __future__ import annotations

import json

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources
from tensorflow_ipu.costs.label import Label
from tests.support.planner.op_specs import f16, f32, op

ALL = Resources(BOW, BOW.tiles)
OWN = {
    "compute": 1000,
    "exchange": 200,
    "sync": 30,
    "certain": True,
    "ops": [],
    "temporary": 4096,
    "vertex_state": 24,
    "codelets": ["Product"],
}


def price(**changes: object) -> Cost:
    """Returns the cost of a program."""
    takes = json.dumps({**OWN, **changes})
    return cost_of(OpSpec("IpuPrecompiledUserOp", (f32(8),), (f32(8),), {"takes": takes}), ALL)


def test_estimates_are_taken_over() -> None:
    expected = Cost(1000, 200, 30, 4096, ("Product",), 24, label=Label.MODELLED)
    assert price() == expected


def test_missing_estimates_are_assumed() -> None:
    assert price(certain=False).label is Label.ASSUMED


def test_library_ops_cost_what_tensorflow_ops_do() -> None:
    shape = [1472, 64]
    step = {"name": "popops::map", "times": 3, "inputs": [["float", shape]] * 2}
    cost = price(ops=[{**step, "outputs": [["float", shape]]}])
    single = cost_of(op("Mul", (f32(*shape), f32(*shape)), f32(*shape)), ALL)
    assert cost.cycles == 1230 + 3 * single.cycles
    assert cost.temporary == 4096 + single.temporary


def test_products_of_library_ops_cost_what_matrices_do() -> None:
    steps, batch, inner, columns = 5, 16, 96, 256
    layer = {"name": "popnn::lstmFwd", "times": 2, "products": [steps, 1, batch, inner, columns]}
    inputs, outputs = [["half", [steps, batch, 32]]], [["half", [steps, batch, 64]]]
    cost = price(ops=[{**layer, "inputs": inputs, "outputs": outputs}])
    operands = (f16(1, batch, inner), f16(1, inner, columns))
    single = cost_of(op("BatchMatMulV2", operands, f16(1, batch, columns)), ALL)
    assert cost.cycles == 1230 + 2 * steps * single.cycles
    assert cost.label is Label.MODELLED


def test_programs_without_description_are_unknown() -> None:
    spec = OpSpec("IpuPrecompiledUserOp", (f32(8),), (f32(8),), {})
    assert cost_of(spec, ALL).label is Label.ASSUMED
